//! The GPUs that a job may use.

use super::Nvidia;
use super::device::{Gpu, ReportedGpu};
use super::error::NvidiaError;
use crate::model::NVIDIA_DEVICES;
use serde::{Deserialize, Serialize};
use std::env;
use std::path::{Path, PathBuf};

/// CUDA's variable that says which GPUs a process may see.
const VISIBLE_VARIABLE: &str = "CUDA_VISIBLE_DEVICES";

/// The GPUs that a job may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// The GPUs, by index.
    pub gpus: Vec<Gpu>,
    /// Whether the driver reported its GPUs.
    pub known: bool,
    /// Why there are no GPUs, or fewer than the machine has.
    pub missing: Option<String>,
    /// The driver's version.
    pub driver: Option<String>,
    /// The newest version of CUDA that the driver supports.
    pub cuda: Option<String>,
}

impl Inventory {
    /// Lists the GPUs now. Costs nothing without a driver.
    pub fn now() -> Self {
        Self::from_driver(&Nvidia::open())
    }

    /// The GPUs that this driver reports, without those whose device files are missing here or that
    /// the environment of this process hides. `nvidia` is the opened driver, or the reason why it
    /// cannot be used.
    pub fn from_driver(nvidia: &Result<Nvidia, NvidiaError>) -> Self {
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
        let visible = env::var_os(VISIBLE_VARIABLE).map(|text| text.to_string_lossy().into_owned());
        let (gpus, missing) = usable(found, visible.as_deref(), Path::exists);
        let (driver, cuda) = nvidia.versions();
        Self { gpus, known: true, missing, driver, cuda }
    }
}

/// The number of GPUs that a job may use.
pub fn count() -> u32 {
    u32::try_from(Inventory::now().gpus.len()).unwrap_or(u32::MAX)
}

/// The GPUs that can be leased, and why others cannot.
fn usable(
    found: Vec<ReportedGpu>,
    visible: Option<&str>,
    exists: impl Fn(&Path) -> bool,
) -> (Vec<Gpu>, Option<String>) {
    if found.is_empty() {
        return (Vec::new(), Some("the driver reports no GPU".to_owned()));
    }
    let absent = NVIDIA_DEVICES.iter().find(|path| !exists(Path::new(path)));
    if let Some(path) = absent {
        let why = format!(
            "the device file {path} is missing: load the driver's modules (nvidia-modprobe -u \
             also makes this file), or pass it to the container"
        );
        return (Vec::new(), Some(why));
    }
    let mut missing = None;
    let mut gpus: Vec<Gpu> = Vec::new();
    for device in found {
        let file = device.minor.map(|minor| PathBuf::from(format!("/dev/nvidia{minor}")));
        match file.filter(|file| !exists(file)) {
            Some(file) => {
                missing =
                    Some(format!("GPU {} has no device file {}", device.index, file.display()));
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
    let total = gpus.len();
    let gpus = keep_visible(gpus, visible);
    if gpus.len() < total {
        let left = gpus.len();
        missing = Some(format!(
            "{VISIBLE_VARIABLE} is {visible:?} in Sandmill's environment, which leaves {left} of {total}"
        ));
    }
    (gpus, missing)
}

impl ReportedGpu {
    /// The whole GPU, or its parts if it is split. The caller sets the indices.
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

/// The GPUs that the variable's value `visible` allows. As in CUDA, its entries are numbers in the order of
/// the PCI bus, or prefixes of UUIDs, and the first entry without a match ends the list.
fn keep_visible(gpus: Vec<Gpu>, visible: &str) -> Vec<Gpu> {
    let mut kept = Vec::new();
    for entry in visible.split(',').map(str::trim) {
        let matches = |gpu: &Gpu| match entry.parse::<u32>() {
            Ok(number) => gpu.device == number,
            Err(_) => entry.len() > 4 && gpu.uuid.starts_with(entry),
        };
        let matching: Vec<u32> =
            gpus.iter().filter(|gpu| matches(gpu)).map(|gpu| gpu.index).collect();
        if matching.is_empty() {
            break;
        }
        kept.extend(matching);
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
        insta::assert_snapshot!(missing.unwrap(), @"the device file /dev/nvidia-uvm is missing: load the driver's modules (nvidia-modprobe -u also makes this file), or pass it to the container");
        let two = || vec![device(0, &[]), device(1, &[])];
        let (gpus, missing) = usable(two(), None, without("/dev/nvidia3"));
        assert_eq!((gpus.len(), gpus[0].device, gpus[0].index), (1, 1, 0));
        insta::assert_snapshot!(missing.unwrap(), @"GPU 0 has no device file /dev/nvidia3");
        let empty = ReportedGpu { is_split: true, ..device(0, &[]) };
        let (gpus, missing) = usable(vec![empty], None, |_| true);
        assert!(gpus.is_empty());
        insta::assert_snapshot!(missing.unwrap(), @"GPU 0 is in MIG mode and has no parts");
        assert_eq!(usable(Vec::new(), None, |_| true).1.unwrap(), "the driver reports no GPU");
    }

    #[test]
    fn without_a_driver_no_gpu_is_found() {
        let inventory = Inventory::from_driver(&Err(NvidiaError::NoDriver));
        assert_eq!((inventory.gpus.len(), inventory.known), (0, false));
        assert_eq!(inventory.missing.as_deref(), Some("there is no NVIDIA driver"));
    }
}
