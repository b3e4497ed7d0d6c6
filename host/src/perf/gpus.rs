//! What drivers of GPUs tell without a library of theirs.
//!
//! AMD's driver puts use and memory into `/sys`. NVIDIA's tells only which devices there are: they
//! are listed in `machine.json`, and have columns once their library is asked.

use super::table::megabytes;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// A GPU that the kernel knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Gpu {
    /// The driver.
    pub(super) driver: &'static str,
    /// Where it is: its address on the bus, or its name.
    pub(super) device: String,
    /// What it is, if the driver tells.
    pub(super) model: Option<String>,
}

/// How busy a GPU is, in columns of `node_resource_usage.csv`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Usage {
    device: String,
    busy_percent: u64,
    used: u64,
    total: u64,
}

/// The GPUs of the machine whose `/proc` and `/sys` these are.
pub(super) fn gpus(proc: &Path, sys: &Path) -> Vec<Gpu> {
    let mut gpus = Vec::new();
    for (device, path) in entries(&proc.join("driver/nvidia/gpus")) {
        let text = fs::read_to_string(path.join("information")).unwrap_or_default();
        let model = text.lines().find_map(|line| line.strip_prefix("Model:"));
        let model = model.map(|model| model.trim().to_owned());
        gpus.push(Gpu { driver: "nvidia", device, model });
    }
    let amd = usages(sys).into_iter().map(|usage| usage.device);
    gpus.extend(amd.map(|device| Gpu { driver: "amdgpu", device, model: None }));
    gpus
}

fn usages(sys: &Path) -> Vec<Usage> {
    let cards = entries(&sys.join("class/drm")).into_iter();
    cards
        .filter_map(|(name, path)| {
            let number = |file: &str| {
                fs::read_to_string(path.join("device").join(file)).ok()?.trim().parse().ok()
            };
            // Connectors (`card0-DP-1`) lie beside the cards.
            let index = name.strip_prefix("card")?;
            index.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
            Some(Usage {
                busy_percent: number("gpu_busy_percent")?,
                used: number("mem_info_vram_used")?,
                total: number("mem_info_vram_total")?,
                device: name,
            })
        })
        .collect()
}

/// The columns of the GPUs that tell how busy they are. None where there are no such GPUs.
pub(super) fn header(sys: &Path) -> Vec<String> {
    let columns = ["%", "Memory Used (MB)", "Memory Total (MB)"];
    let of = |gpu: Usage| columns.map(|column| format!("GPU {} {column}", gpu.device));
    usages(sys).into_iter().flat_map(of).collect()
}

/// The fields under [`header`].
pub(super) fn fields(sys: &Path) -> Vec<String> {
    let of = |gpu: Usage| [gpu.busy_percent.to_string(), megabytes(gpu.used), megabytes(gpu.total)];
    usages(sys).into_iter().flat_map(of).collect()
}

fn entries(folder: &Path) -> Vec<(String, std::path::PathBuf)> {
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

    #[test]
    fn columns_are_there_where_gpus_are() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(gpus(root, root), []);
        assert!(header(root).is_empty() && fields(root).is_empty());
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
        let header = header(root).join(",");
        assert_eq!(header, "GPU card1 %,GPU card1 Memory Used (MB),GPU card1 Memory Total (MB)");
        assert_eq!(fields(root), ["37", "1.00", "4.00"]);
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
