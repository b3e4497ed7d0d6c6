//! Readings from the drivers of GPUs.
//!
//! AMD's driver reports use and memory in `/sys`. NVIDIA's driver lists its devices below `/proc`, and its
//! library reports how busy they are.

use super::table::{known, megabytes, number};
use crate::gpu::{self, GpuUse, Inventory, Nvidia};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// A GPU that the kernel knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct KernelGpu {
    /// The driver's name.
    pub(super) driver: &'static str,
    /// The GPU's address on the PCI bus (NVIDIA), or its name in `/sys` (AMD).
    pub(super) device: String,
    /// The GPU's model. `None` if the driver does not report it.
    pub(super) model: Option<String>,
}

/// How busy an AMD GPU is. The memory is in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AmdUsage {
    device: String,
    busy_percent: u64,
    used: u64,
    total: u64,
}

/// The GPUs of a machine with these `/proc` and `/sys` folders.
pub(super) fn gpus(proc: &Path, sys: &Path) -> Vec<KernelGpu> {
    let mut gpus = Vec::new();
    for (device, path) in entries(&proc.join("driver/nvidia/gpus")) {
        let text = fs::read_to_string(path.join("information")).unwrap_or_default();
        let model = text.lines().find_map(|line| line.strip_prefix("Model:"));
        let model = model.map(|model| model.trim().to_owned());
        gpus.push(KernelGpu { driver: "nvidia", device, model });
    }
    let amd = amd_usages(sys).into_iter().map(|usage| usage.device);
    gpus.extend(amd.map(|device| KernelGpu { driver: "amdgpu", device, model: None }));
    gpus
}

/// The use of each AMD GPU.
fn amd_usages(sys: &Path) -> Vec<AmdUsage> {
    let cards = entries(&sys.join("class/drm")).into_iter();
    cards
        .filter_map(|(name, path)| {
            let number = |file: &str| {
                fs::read_to_string(path.join("device").join(file)).ok()?.trim().parse().ok()
            };
            // The folder also has connectors (`card0-DP-1`).
            let index = name.strip_prefix("card")?;
            index.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
            Some(AmdUsage {
                busy_percent: number("gpu_busy_percent")?,
                used: number("mem_info_vram_used")?,
                total: number("mem_info_vram_total")?,
                device: name,
            })
        })
        .collect()
}

/// The GPUs that report how busy they are.
#[derive(Debug)]
pub(super) struct GpuUsages {
    nvidia: Option<Nvidia>,
    gpus: Vec<gpu::Gpu>,
    sys: PathBuf,
}

impl GpuUsages {
    /// The GPUs of this machine with its `/sys`. Costs nothing on a machine without GPUs.
    pub(super) fn open(sys: &Path) -> Self {
        let nvidia = Nvidia::open();
        let gpus = Inventory::from_driver(&nvidia).gpus;
        Self { nvidia: nvidia.ok(), gpus, sys: sys.to_owned() }
    }

    /// The names of the columns. Empty if no GPU reports how busy it is.
    pub(super) fn header(&self) -> Vec<String> {
        let nvidia = self.gpus.iter().flat_map(|gpu| columns(&gpu.index.to_string()));
        let amd = amd_usages(&self.sys).into_iter();
        nvidia.chain(amd.flat_map(|usage| columns(&usage.device).into_iter().take(3))).collect()
    }

    /// The values for the columns in [`header`](Self::header).
    pub(super) fn fields(&self) -> Vec<String> {
        let amd = amd_usages(&self.sys)
            .into_iter()
            .map(|usage| fields(&usage.to_gpu_use()).into_iter().take(3));
        self.nvidia_usages(self.gpus.iter())
            .flat_map(|usage| fields(&usage))
            .chain(amd.flatten())
            .collect()
    }

    /// The average use, in percent, of NVIDIA's GPUs with these indices and of all AMD GPUs, which are never
    /// leased. `None` if no GPU reports it.
    pub(super) fn percent(&self, leased: &[u32]) -> Option<u32> {
        let amd = amd_usages(&self.sys).into_iter().map(|usage| usage.to_gpu_use());
        let leased = self.gpus.iter().filter(|gpu| leased.contains(&gpu.index));
        mean(self.nvidia_usages(leased).chain(amd).filter_map(|usage| usage.percent))
    }

    /// The readings of NVIDIA's driver for these GPUs.
    fn nvidia_usages<'a>(
        &'a self,
        gpus: impl Iterator<Item = &'a gpu::Gpu>,
    ) -> impl Iterator<Item = GpuUse> {
        gpus.filter_map(|gpu| Some(self.nvidia.as_ref()?.usage(gpu)))
    }
}

impl AmdUsage {
    /// The same values in the form of NVIDIA's readings.
    fn to_gpu_use(&self) -> GpuUse {
        GpuUse {
            percent: u32::try_from(self.busy_percent).ok(),
            used: Some(self.used),
            total: Some(self.total),
            ..GpuUse::default()
        }
    }
}

/// The columns of one GPU. AMD GPUs have only the first three.
fn columns(name: &str) -> [String; 5] {
    ["%", "Memory Used (MB)", "Memory Total (MB)", "Power (W)", "Temperature (C)"]
        .map(|column| format!("GPU {name} {column}"))
}

/// The fields of these [`columns`].
fn fields(usage: &GpuUse) -> [String; 5] {
    [
        known(usage.percent),
        known(usage.used.map(megabytes)),
        known(usage.total.map(megabytes)),
        number(usage.watts),
        known(usage.celsius),
    ]
}

fn mean(percents: impl Iterator<Item = u32>) -> Option<u32> {
    let (sum, count) = percents.fold((0, 0), |(sum, count), percent| (sum + percent, count + 1));
    (count > 0).then(|| sum / count)
}

/// The names and paths of a folder's entries, sorted. Empty if the folder cannot be read.
fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut entries: Vec<_> = entries
        .flatten()
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .collect();
    entries.sort();
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amd(sys: &Path) -> GpuUsages {
        GpuUsages { nvidia: None, gpus: Vec::new(), sys: sys.to_owned() }
    }

    /// A value that a driver does not report is an empty field (rule K2 in `docs/parallel-run-step.md`).
    #[test]
    fn missing_readings_are_empty_fields() {
        let columns = columns("1").join(",");
        assert_eq!(
            columns,
            "GPU 1 %,GPU 1 Memory Used (MB),GPU 1 Memory Total (MB),GPU 1 Power (W),GPU 1 Temperature (C)"
        );
        let whole = GpuUse {
            percent: Some(93),
            used: Some(3 << 20),
            total: Some(80 << 30),
            watts: Some(612.3456),
            celsius: Some(71),
        };
        assert_eq!(fields(&whole), ["93", "3.00", "81920.00", "612.35", "71"]);
        let part = GpuUse { percent: None, watts: None, ..whole };
        assert_eq!(fields(&part), ["", "3.00", "81920.00", "", "71"]);
        assert_eq!(fields(&GpuUse::default()), [""; 5]);
        assert_eq!(mean([100, 0, 20].into_iter()), Some(40));
        assert_eq!(mean(std::iter::empty()), None);
    }

    #[test]
    fn each_gpu_has_columns() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(gpus(root, root), []);
        let none = amd(root);
        assert!(
            none.header().is_empty() && none.fields().is_empty() && none.percent(&[]).is_none()
        );
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("class/drm/card1/device/gpu_busy_percent", "37\n");
        write("class/drm/card1/device/mem_info_vram_used", "1048576\n");
        write("class/drm/card1/device/mem_info_vram_total", "4194304\n");
        write("class/drm/card1-DP-1/status", "connected\n");
        write("class/drm/card0/device/vendor", "0x1a03\n");
        write("driver/nvidia/gpus/0000:17:00.0/information", "Model: \t\t NVIDIA X\nIRQ: 1\n");
        let header = amd(root).header().join(",");
        assert_eq!(header, "GPU card1 %,GPU card1 Memory Used (MB),GPU card1 Memory Total (MB)");
        assert_eq!(amd(root).fields(), ["37", "1.00", "4.00"]);
        assert_eq!(amd(root).percent(&[]), Some(37));
        let shown: Vec<_> =
            gpus(root, root).into_iter().map(|g| (g.driver, g.device, g.model)).collect();
        assert_eq!(
            shown,
            [
                ("nvidia", "0000:17:00.0".to_owned(), Some("NVIDIA X".to_owned())),
                ("amdgpu", "card1".to_owned(), None)
            ]
        );
    }
}
