//! The files and devices that CUDA needs to use one GPU.

use super::role::{FolderRights, GrantedPath};
use sandmill_model::{GpuLease, NVIDIA_DEVICES};
use std::fs;
use std::path::{Path, PathBuf};

/// A device that the driver uses if it exists.
const UVM_TOOLS: &str = "/dev/nvidia-uvm-tools";

/// The folder of devices that give access to parts of a GPU (MIG).
const MIG_CAPABILITIES: &str = "/dev/nvidia-caps";

/// The files from which the driver learns about itself and the machine.
const READ_PATHS: [&str; 15] = [
    "/proc/driver/nvidia",
    "/proc/driver/nvidia-uvm",
    "/proc/self",
    "/proc/devices",
    "/proc/modules",
    "/proc/meminfo",
    "/proc/cpuinfo",
    "/proc/sys/vm/mmap_min_addr",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/memory",
    "/sys/devices/system/node",
    "/sys/devices/system/cpu",
    "/sys/module/nvidia",
    "/sys/bus/pci/devices",
    "/etc/ld.so.cache",
];

/// Folders with libraries that other libraries load on first use.
const LIBRARY_FOLDERS: [&str; 6] =
    ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/cuda", "/usr/local/nvidia"];

/// The folders and devices for a process that uses this GPU. `libraries`: more folders with CUDA's
/// libraries. The wall skips folders that do not exist.
pub fn gpu_folders(lease: &GpuLease, libraries: &[PathBuf]) -> Vec<GrantedPath> {
    let folder = |path: &str, rights| GrantedPath::new(path, rights);
    let mut folders: Vec<GrantedPath> =
        NVIDIA_DEVICES.iter().map(|path| folder(path, FolderRights::Device)).collect();
    folders.push(folder(UVM_TOOLS, FolderRights::Device));
    folders.extend(
        READ_PATHS.iter().chain(&LIBRARY_FOLDERS).map(|path| folder(path, FolderRights::Read)),
    );
    let read = |path: &PathBuf| GrantedPath::new(path, FolderRights::Read);
    folders.extend(libraries.iter().chain(&lease.kernels).map(read));
    // The driver sets the names of its threads.
    folders.push(folder("/proc/self/task", FolderRights::Device));
    folders.push(folder("/dev/null", FolderRights::Device));
    let (minor, bus) = minor_and_bus(Path::new("/proc/driver/nvidia/gpus"), lease);
    if let Some(minor) = minor {
        folders.push(folder(&format!("/dev/nvidia{minor}"), FolderRights::Device));
    }
    if let Some(bus) = bus {
        // The path is a link to a folder that no other rule covers.
        folders.push(folder(&format!("/sys/bus/pci/devices/{bus}"), FolderRights::Read));
    }
    if lease.visible.starts_with("MIG-") {
        folders.push(folder(MIG_CAPABILITIES, FolderRights::Device));
    }
    folders
}

/// The minor number of the GPU's device file, and the GPU's PCI bus address. The minor number may differ from
/// the GPU's index. If the lease has a minor number, it is used. Otherwise the minor number comes from the
/// driver's list of GPUs. The address always comes from this list, which is incomplete in some containers.
fn minor_and_bus(gpus: &Path, lease: &GpuLease) -> (Option<u32>, Option<String>) {
    let entries = fs::read_dir(gpus).into_iter().flatten().filter_map(Result::ok);
    let mut listed: Vec<(String, Option<u32>)> = entries
        .filter_map(|entry| {
            let text = fs::read_to_string(entry.path().join("information")).unwrap_or_default();
            let number = text.lines().find_map(|line| line.strip_prefix("Device Minor:"));
            let number = number.and_then(|number| number.trim().parse().ok());
            Some((entry.file_name().into_string().ok()?, number))
        })
        .collect();
    listed.sort();
    let mut listed = listed.into_iter();
    let found = match lease.minor {
        Some(minor) => listed.find(|(_, number)| *number == Some(minor)),
        None => listed.nth(lease.index as usize),
    };
    let (bus, number) = found.map_or((None, None), |(bus, number)| (Some(bus), number));
    (lease.minor.or(number), bus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lease_index_selects_the_device() {
        let gpus = tempfile::tempdir().unwrap();
        for (bus, minor) in [("0000:81:00.0", 0), ("0000:01:00.0", 3)] {
            let folder = gpus.path().join(bus);
            fs::create_dir(&folder).unwrap();
            let text = format!("Model: \t\t X\nDevice Minor: \t {minor}\n");
            fs::write(folder.join("information"), text).unwrap();
        }
        let found = |index, minor| {
            let (minor, bus) =
                minor_and_bus(gpus.path(), &GpuLease { minor, ..GpuLease::plain(index) });
            (minor, bus.unwrap_or_default())
        };
        assert_eq!(found(0, None), (Some(3), "0000:01:00.0".to_owned()));
        assert_eq!(found(1, None), (Some(0), "0000:81:00.0".to_owned()));
        assert_eq!(found(2, None), (None, String::new()));
        assert_eq!(
            found(1, Some(3)),
            (Some(3), "0000:01:00.0".to_owned()),
            "as the driver reports"
        );
        assert_eq!(found(0, Some(7)), (Some(7), String::new()));
    }

    #[test]
    fn a_gpu_lease_adds_no_right_to_write_files() {
        let part = GpuLease { visible: "MIG-1".to_owned(), ..GpuLease::plain(0) };
        let folders = gpu_folders(&part, &["/cuda/lib".into()]);
        for GrantedPath { path, rights, .. } in &folders {
            let is_device = path.starts_with("/dev") || path.starts_with("/proc/self/task");
            let expected = if is_device { FolderRights::Device } else { FolderRights::Read };
            assert_eq!(*rights, expected, "{}", path.display());
        }
        let has = |path: &str| folders.iter().any(|folder| folder.path == Path::new(path));
        assert!(has("/cuda/lib") && has("/dev/nvidia-caps"), "{folders:?}");
        let whole = gpu_folders(&GpuLease::plain(0), &[]);
        assert!(whole.iter().all(|folder| folder.path != Path::new("/dev/nvidia-caps")));
    }
}
