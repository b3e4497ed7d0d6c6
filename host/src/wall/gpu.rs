//! What CUDA needs to see of a machine to use one GPU.

use super::build::{Folder, Rights};
use std::fs;
use std::path::{Path, PathBuf};

/// Of the driver, beside the GPU's own device.
pub const GPU_DEVICES: [&str; 3] = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"];

/// What the driver reads of itself and of the machine.
const READ: [&str; 12] = [
    "/proc/driver/nvidia",
    "/proc/driver/nvidia-uvm",
    "/proc/self",
    "/proc/devices",
    "/proc/modules",
    "/proc/meminfo",
    "/proc/cpuinfo",
    "/sys/devices/system/node",
    "/sys/devices/system/cpu",
    "/sys/module/nvidia",
    "/sys/bus/pci/devices",
    "/etc/ld.so.cache",
];

/// The folders and devices of a process that uses the GPU of this index, counted in the order of the
/// machine's PCI bus. What is not there is left out later.
pub fn gpu_folders(index: u32) -> Vec<Folder> {
    let folder = |path: &str, rights| Folder { path: path.into(), rights };
    let mut folders: Vec<Folder> =
        GPU_DEVICES.iter().map(|path| folder(path, Rights::Device)).collect();
    folders.extend(READ.iter().map(|path| folder(path, Rights::Read)));
    // The driver names its threads.
    folders.push(folder("/proc/self/task", Rights::Device));
    folders.push(folder("/dev/null", Rights::Device));
    let minor = minor(Path::new("/proc/driver/nvidia/gpus"), index);
    if let Some(minor) = minor {
        folders.push(folder(&format!("/dev/nvidia{minor}"), Rights::Device));
    }
    folders
}

/// The number of the device file, which need not be the index.
fn minor(gpus: &Path, index: u32) -> Option<u32> {
    let entries = fs::read_dir(gpus).ok()?.filter_map(Result::ok);
    let mut buses: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    buses.sort();
    let text = fs::read_to_string(buses.get(index as usize)?.join("information")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Device Minor:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_that_of_the_index() {
        let gpus = tempfile::tempdir().unwrap();
        for (bus, minor) in [("0000:81:00.0", 0), ("0000:01:00.0", 3)] {
            let folder = gpus.path().join(bus);
            fs::create_dir(&folder).unwrap();
            let text = format!("Model: \t\t X\nDevice Minor: \t {minor}\n");
            fs::write(folder.join("information"), text).unwrap();
        }
        assert_eq!(minor(gpus.path(), 0), Some(3));
        assert_eq!(minor(gpus.path(), 1), Some(0));
        assert_eq!(minor(gpus.path(), 2), None);
    }
}
