//! The NVIDIA driver's library (NVML). Any reading may be missing.

use super::device::{GpuUse, ReportedGpu};
use super::error::NvidiaError;
use super::{Gpu, library_folders};
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml, cuda_driver_version_major, cuda_driver_version_minor};
use std::path::Path;

/// The driver is installed if one of these paths exists.
const DRIVER_PATHS: [&str; 2] = ["/proc/driver/nvidia", "/dev/nvidiactl"];

const LIBRARY: &str = "libnvidia-ml.so.1";

/// The driver's library, opened.
#[derive(Debug)]
pub struct Nvidia(Nvml);

impl Nvidia {
    /// Opens the library. An error says why it cannot be used.
    pub fn open() -> Result<Self, NvidiaError> {
        if !DRIVER_PATHS.iter().any(|path| Path::new(path).exists()) {
            return Err(NvidiaError::NoDriver);
        }
        load().map(Self).map_err(|error| match error {
            NvmlError::LibloadingError(error) => {
                NvidiaError::NoLibrary { library: LIBRARY, why: error.to_string() }
            }
            NvmlError::DriverNotLoaded => NvidiaError::NotLoaded,
            error => unanswered(error),
        })
    }

    /// The versions of the driver and of CUDA.
    pub(super) fn versions(&self) -> (Option<String>, Option<String>) {
        let cuda = self.0.sys_cuda_driver_version().ok().map(|version| {
            format!("{}.{}", cuda_driver_version_major(version), cuda_driver_version_minor(version))
        });
        (self.0.sys_driver_version().ok(), cuda)
    }

    /// All GPUs that the driver reports, in the order of the PCI bus, without those that this process may not
    /// query.
    pub(super) fn devices(&self) -> Result<Vec<ReportedGpu>, NvidiaError> {
        let count = self.0.device_count().map_err(unanswered)?;
        let devices = (0..count).filter_map(|index| {
            let device = self.0.device_by_index(index).ok()?;
            Some(ReportedGpu {
                index,
                uuid: device.uuid().ok()?,
                name: device.name().unwrap_or_else(|_| "unknown".to_owned()),
                memory: memory(&device).map(|(_, total)| total),
                minor: device.minor_number().ok(),
                // 1 is NVML_DEVICE_MIG_ENABLE.
                is_split: device.mig_mode().is_ok_and(|mode| mode.current == 1),
                parts: parts(&device),
            })
        });
        Ok(devices.collect())
    }

    /// How busy a GPU is. A value that the driver does not report is `None`, which is common for a part.
    pub fn usage(&self, gpu: &Gpu) -> GpuUse {
        let Ok(device) = self.device(&gpu.visible()) else { return GpuUse::default() };
        let memory = memory(&device);
        GpuUse {
            percent: device.utilization_rates().ok().map(|rates| rates.gpu),
            used: memory.map(|(used, _)| used),
            total: memory.map(|(_, total)| total),
            watts: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1000.0),
            celsius: device.temperature(TemperatureSensor::Gpu).ok(),
        }
    }

    /// Bytes of memory in use on the GPU with this value of `CUDA_VISIBLE_DEVICES`.
    pub(super) fn used(&self, visible: &str) -> Option<u64> {
        memory(&self.device(visible).ok()?).map(|(used, _)| used)
    }

    /// The processes that compute on this GPU: the ids that the driver reports, and the bytes of memory.
    pub(super) fn processes(&self, visible: &str) -> Option<Vec<(u32, Option<u64>)>> {
        let processes = self.device(visible).ok()?.running_compute_processes().ok()?;
        let bytes = |memory: &UsedGpuMemory| match memory {
            UsedGpuMemory::Used(bytes) => Some(*bytes),
            UsedGpuMemory::Unavailable => None,
        };
        Some(processes.iter().map(|listed| (listed.pid, bytes(&listed.used_gpu_memory))).collect())
    }

    fn device(&self, visible: &str) -> Result<Device<'_>, NvmlError> {
        match visible.parse() {
            Ok(index) => self.0.device_by_index(index),
            Err(_) => self.0.device_by_uuid(visible),
        }
    }
}

fn unanswered(error: NvmlError) -> NvidiaError {
    NvidiaError::Unanswered(Box::new(error))
}

/// Opens the library from the loader's folders, or else from the folders of CUDA's libraries: containers
/// often have the driver in a folder that the loader does not know.
fn load() -> Result<Nvml, NvmlError> {
    let error = match Nvml::init() {
        Err(error @ NvmlError::LibloadingError(_)) => error,
        other => return other,
    };
    let mut candidates = library_folders(None).into_iter().map(|folder| folder.join(LIBRARY));
    match candidates.find(|path| path.exists()) {
        Some(path) => Nvml::builder().lib_path(path.as_os_str()).init(),
        None => Err(error),
    }
}

/// Bytes of memory: in use, and total.
fn memory(device: &Device<'_>) -> Option<(u64, u64)> {
    device.memory_info().ok().map(|memory| (memory.used, memory.total))
}

/// UUID, name and memory of each part of a GPU. The numbers of parts may have gaps.
fn parts(device: &Device<'_>) -> Vec<(String, String, Option<u64>)> {
    let max_parts = device.mig_device_count().unwrap_or(0);
    let parts = (0..max_parts).filter_map(|index| {
        let part = device.mig_device_by_index(index).ok()?;
        let name = part.name().unwrap_or_else(|_| format!("MIG {index}"));
        Some((part.uuid().ok()?, name, memory(&part).map(|(_, total)| total)))
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With or without a driver, nothing panics.
    #[test]
    fn a_driver_is_queried_or_reported_missing() {
        match Nvidia::open() {
            Err(reason) => assert!(reason.to_string().contains("NVIDIA driver"), "{reason}"),
            Ok(nvidia) => {
                for gpu in super::super::Inventory::from_driver(&Ok(nvidia)).gpus {
                    assert!(
                        gpu.uuid.starts_with("GPU-") || gpu.uuid.starts_with("MIG-"),
                        "{gpu:?}"
                    );
                }
            }
        }
    }
}
