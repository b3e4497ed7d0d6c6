//! The GPUs that a job may use.

use super::Nvidia;
use super::device::{Gpu, ReportedGpu};
use super::error::NvidiaError;
use crate::model::NVIDIA_DEVICES;
use serde::{Deserialize, Serialize};
use std::env;
use std::path::{Path, PathBuf};

/// The variable that says which GPUs a process may see, as CUDA reads it.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// The GPUs that a job may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// The GPUs, by index.
    pub gpus: Vec<Gpu>,
    /// Whether the driver reported its GPUs.
    pub known: bool,
    /// Why there are none, or fewer than the machine has.
    pub missing: Option<String>,
    /// The driver's version.
    pub driver: Option<String>,
    /// The newest version of CUDA that the driver supports.
    pub cuda: Option<String>,
}

impl Inventory {
    /// The GPUs now. Costs nothing without a driver.
    pub fn now() -> Self {
        Self::of(&Nvidia::open())
    }

    /// The GPUs that this driver reports, if their device files are here and the environment of this process
    /// allows them; or why there is no driver.
    pub fn of(nvidia: &Result<Nvidia, NvidiaError>) -> Self {
        let none = |reason: &NvidiaError| {
            let missing = Some(reason.to_string());
            Self { missing, ..Self::default() }
        };
        let nvidia = match nvidia {
            Ok(nvidia) => nvidia,
            Err(reason) => return none(reason),
        };
        let found = match nvidia.devices() {
            Ok(found) => found,
            Err(reason) => return none(&reason),
        };
        let visible = env::var_os(VISIBLE).map(|text| text.to_string_lossy().into_owned());
        let (gpus, missing) = usable(found, visible.as_deref(), Path::exists);
        let (driver, cuda) = nvidia.versions();
        Self { gpus, known: true, missing, driver, cuda }
    }
}

/// The number of GPUs that a job may use.
pub fn count() -> u32 {
    u32::try_from(Inventory::now().gpus.len()).unwrap_or(u32::MAX)
}

/// The GPUs that can be leased, and why some cannot.
fn usable(
    found: Vec<ReportedGpu>,
    visible: Option<&str>,
    there: impl Fn(&Path) -> bool,
) -> (Vec<Gpu>, Option<String>) {
    if found.is_empty() {
        return (Vec::new(), Some("the driver reports no GPU".to_owned()));
    }
    let needed = NVIDIA_DEVICES.iter().find(|path| !there(Path::new(path)));
    if let Some(path) = needed {
        let why = format!(
            "the device file {path} is missing: load the driver's modules (nvidia-modprobe -u \
             makes it), or give it to the container"
        );
        return (Vec::new(), Some(why));
    }
    let mut missing = None;
    let mut gpus: Vec<Gpu> = Vec::new();
    for device in found {
        let file = device.minor.map(|minor| PathBuf::from(format!("/dev/nvidia{minor}")));
        match file.filter(|file| !there(file)) {
            Some(file) => {
                missing = Some(format!("GPU {} has no {} here", device.index, file.display()));
            }
            None if device.is_split && device.parts.is_empty() => {
                missing = Some(format!("GPU {} is in MIG mode and has no parts", device.index));
            }
            None => gpus.extend(device.into_gpus()),
        }
    }
    for (index, gpu) in (0..).zip(&mut gpus) {
        gpu.index = index;
    }
    let Some(visible) = visible else { return (gpus, missing) };
    let all = gpus.len();
    let gpus = cut(gpus, visible);
    if gpus.len() < all {
        let left = gpus.len();
        missing = Some(format!(
            "{VISIBLE} is {visible:?} in Sandmill's environment, which leaves {left} of {all}"
        ));
    }
    (gpus, missing)
}

impl ReportedGpu {
    /// The GPU itself, or its parts. The caller sets the indices.
    fn into_gpus(self) -> Vec<Gpu> {
        let device = self.index;
        let minor = self.minor;
        if !self.is_split {
            let Self { uuid, name, memory, .. } = self;
            return vec![Gpu { index: 0, uuid, name, memory, part_of: None, device, minor }];
        }
        let part = |(uuid, name, memory)| {
            let part_of = Some(device);
            Gpu { index: 0, uuid, name, memory, part_of, device, minor }
        };
        self.parts.into_iter().map(part).collect()
    }
}

/// The GPUs that the variable leaves, read as CUDA reads it: numbers in the order of the PCI bus, or prefixes
/// of UUIDs. The first entry without a match ends the list.
fn cut(gpus: Vec<Gpu>, visible: &str) -> Vec<Gpu> {
    let mut kept = Vec::new();
    for entry in visible.split(',').map(str::trim) {
        let is_meant = |gpu: &Gpu| match entry.parse::<u32>() {
            Ok(number) => gpu.device == number,
            Err(_) => entry.len() > 4 && gpu.uuid.starts_with(entry),
        };
        let meant: Vec<u32> =
            gpus.iter().filter(|gpu| is_meant(gpu)).map(|gpu| gpu.index).collect();
        if meant.is_empty() {
            break;
        }
        kept.extend(meant);
    }
    gpus.into_iter().filter(|gpu| kept.contains(&gpu.index)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(index: u32, parts: &[&str]) -> ReportedGpu {
        let part = |uuid: &&str| ((*uuid).to_owned(), format!("X {uuid}"), Some(5));
        ReportedGpu {
            index,
            uuid: format!("GPU-{index}abc"),
            name: "X".to_owned(),
            memory: Some(40),
            minor: Some(index + 3),
            is_split: !parts.is_empty(),
            parts: parts.iter().map(part).collect(),
        }
    }

    fn seen(found: Vec<ReportedGpu>, visible: Option<&str>) -> Vec<(u32, String)> {
        let (gpus, _) = usable(found, visible, |_| true);
        gpus.iter().map(|gpu| (gpu.index, gpu.visible())).collect()
    }

    #[test]
    fn parts_of_a_gpu_count_as_gpus() {
        let found = vec![device(0, &[]), device(1, &["MIG-a", "MIG-b"]), device(2, &[])];
        let owned = |list: &[(u32, &str)]| -> Vec<(u32, String)> {
            list.iter().map(|(index, text)| (*index, (*text).to_owned())).collect()
        };
        let expected = owned(&[(0, "0"), (1, "MIG-a"), (2, "MIG-b"), (3, "2")]);
        assert_eq!(seen(found.clone(), None), expected);
        let (gpus, missing) = usable(found, None, |_| true);
        assert_eq!((gpus[2].part_of, gpus[3].part_of, missing), (Some(1), None, None));
        let lease = gpus[2].lease();
        assert_eq!((lease.index, lease.visible.as_str(), lease.minor), (2, "MIG-b", Some(4)));
    }

    /// A cluster's scheduler starts Sandmill with some of the machine's GPUs; a job may use only these.
    #[test]
    fn cuda_visible_devices_limits_the_gpus() {
        let found = || vec![device(0, &[]), device(1, &["MIG-a", "MIG-b"]), device(2, &[])];
        for (visible, expected) in [
            ("0,2", vec![0, 3]),
            (" 2 , 0 ", vec![0, 3]),
            ("1", vec![1, 2]),
            ("GPU-2a", vec![3]),
            ("MIG-b", vec![2]),
            ("0,7,2", vec![0]),
            ("", vec![]),
            ("-1", vec![]),
            ("GPU-", vec![]),
            ("NoDevFiles", vec![]),
        ] {
            let indices: Vec<u32> =
                seen(found(), Some(visible)).into_iter().map(|(index, _)| index).collect();
            assert_eq!(indices, expected, "{visible}");
        }
        let (_, missing) = usable(found(), Some("0"), |_| true);
        let text = missing.unwrap();
        insta::assert_snapshot!(text, @r#"CUDA_VISIBLE_DEVICES is "0" in Sandmill's environment, which leaves 1 of 4"#);
    }

    #[test]
    fn unusable_gpus_are_skipped_with_a_reason() {
        let without = |missing: &'static str| move |path: &Path| path != Path::new(missing);
        let (gpus, missing) = usable(vec![device(0, &[])], None, without("/dev/nvidia-uvm"));
        assert!(gpus.is_empty());
        insta::assert_snapshot!(missing.unwrap(), @"the device file /dev/nvidia-uvm is missing: load the driver's modules (nvidia-modprobe -u makes it), or give it to the container");
        let two = || vec![device(0, &[]), device(1, &[])];
        let (gpus, missing) = usable(two(), None, without("/dev/nvidia3"));
        assert_eq!((gpus.len(), gpus[0].device, gpus[0].index), (1, 1, 0));
        insta::assert_snapshot!(missing.unwrap(), @"GPU 0 has no /dev/nvidia3 here");
        let empty = ReportedGpu { is_split: true, ..device(0, &[]) };
        let (gpus, missing) = usable(vec![empty], None, |_| true);
        assert!(gpus.is_empty());
        insta::assert_snapshot!(missing.unwrap(), @"GPU 0 is in MIG mode and has no parts");
        assert_eq!(usable(Vec::new(), None, |_| true).1.unwrap(), "the driver reports no GPU");
    }

    #[test]
    fn without_a_driver_no_gpu_is_found() {
        let inventory = Inventory::of(&Err(NvidiaError::NoDriver));
        assert_eq!((inventory.gpus.len(), inventory.known), (0, false));
        assert_eq!(inventory.missing.as_deref(), Some("there is no NVIDIA driver"));
    }
}
