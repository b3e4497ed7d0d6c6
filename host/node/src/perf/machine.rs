//! A description of the machine, written once next to the samples.

use super::disks::{Disk, disks};
use super::gpus::{KernelGpu, gpus};
use super::table::time;
use jiff::Timestamp;
use procfs::{CpuInfo, Current, LoadAverage, Meminfo, Uptime};
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::thread::available_parallelism;

/// The content of `machine.json`. Memory and disks are in bytes. A value that the machine does not report is
/// null.
#[derive(Debug, Serialize)]
pub(super) struct MachineInfo {
    /// The version of Sandmill.
    sandmill: &'static str,
    /// The version of the engine that runs guests.
    wasmtime: &'static str,
    /// When the description was made.
    at: String,
    hostname: Option<String>,
    operating_system: Option<String>,
    kernel: Option<String>,
    architecture: &'static str,
    processor: Option<String>,
    /// The number of processors of the machine.
    processors: Option<usize>,
    /// The number of processors that this process may use.
    processors_usable: Option<usize>,
    memory: Option<u64>,
    swap: Option<u64>,
    /// The load averages over 1, 5 and 15 minutes.
    load: Option<[f32; 3]>,
    uptime_seconds: Option<f64>,
    cgroups: Vec<Cgroup>,
    mounts: Vec<Mounted>,
    gpus: Vec<KernelGpu>,
}

/// A cgroup that limits this process.
#[derive(Debug, Serialize)]
struct Cgroup {
    /// The cgroup's path, as in `/proc/self/cgroup`.
    path: String,
    /// The file name and the content of each limit that is set.
    limits: Vec<(String, String)>,
}

/// A mounted file system.
#[derive(Debug, Serialize)]
struct Mounted {
    device: String,
    at: String,
    kind: String,
    total: u64,
    free: u64,
}

impl MachineInfo {
    pub(super) fn now(job_dir: &Path, wasmtime: &'static str) -> Self {
        let cpus = CpuInfo::current().ok();
        let memory = Meminfo::current().ok();
        let load = LoadAverage::current().ok();
        Self {
            sandmill: env!("CARGO_PKG_VERSION"),
            wasmtime,
            at: time(Timestamp::now()),
            hostname: first_line("/proc/sys/kernel/hostname"),
            operating_system: fs::read_to_string("/etc/os-release")
                .ok()
                .and_then(|text| pretty_name(&text)),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            architecture: std::env::consts::ARCH,
            processor: cpus.as_ref().and_then(|cpus| cpus.model_name(0)).map(str::to_owned),
            processors: cpus.map(|cpus| cpus.num_cores()),
            processors_usable: available_parallelism().ok().map(Into::into),
            memory: memory.as_ref().map(|memory| memory.mem_total),
            swap: memory.map(|memory| memory.swap_total),
            load: load.map(|load| [load.one, load.five, load.fifteen]),
            uptime_seconds: Uptime::current().ok().map(|uptime| uptime.uptime),
            cgroups: cgroups(Path::new("/sys/fs/cgroup"), &own_cgroups()),
            mounts: disks(job_dir).into_iter().map(Mounted::from).collect(),
            gpus: gpus(Path::new("/proc"), Path::new("/sys")),
        }
    }

    /// The description as indented JSON.
    pub(super) fn text(&self) -> String {
        // Plain data always serializes.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

impl From<Disk> for Mounted {
    fn from(disk: Disk) -> Self {
        let Disk { device, mounted_at, kind, total, free, .. } = disk;
        Self { device, at: mounted_at, kind, total, free }
    }
}

fn first_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.to_owned())
}

/// The name of the operating system in the text of `/etc/os-release`.
fn pretty_name(release: &str) -> Option<String> {
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

/// The controllers (empty in cgroup version 2) and the path of each cgroup that this process is in.
fn own_cgroups() -> Vec<(String, String)> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let entry = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
    };
    text.lines().filter_map(entry).collect()
}

/// The cgroups that limit memory, processors or processes, including parent cgroups.
fn cgroups(root: &Path, own: &[(String, String)]) -> Vec<Cgroup> {
    const PERIOD: &str = "cpu.cfs_period_us";
    const FILES: [&str; 6] =
        ["memory.max", "cpu.max", "pids.max", "memory.limit_in_bytes", "cpu.cfs_quota_us", PERIOD];
    let mut found = Vec::new();
    for (controllers, path) in own {
        let base = root.join(controllers.as_str());
        let inside = Path::new(path.trim_start_matches('/'));
        for ancestor in inside.ancestors() {
            let limits: Vec<_> = FILES
                .iter()
                .filter_map(|file| {
                    let text = fs::read_to_string(base.join(ancestor).join(file)).ok()?;
                    let value = text.trim();
                    // In version 1, "no limit" is the largest number of whole pages.
                    let is_unlimited = value.starts_with("max")
                        || value == "-1"
                        || value.parse::<u64>().is_ok_and(|n| n > i64::MAX as u64 - (1 << 20));
                    (!is_unlimited).then(|| ((*file).to_owned(), value.to_owned()))
                })
                .collect();
            // A period means nothing without a quota.
            if limits.iter().any(|(file, _)| file != PERIOD) {
                let path = Path::new("/").join(ancestor).display().to_string();
                found.push(Cgroup { path, limits });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described() {
        let machine = MachineInfo::now(Path::new("/"), "1.2.3");
        let value: serde_json::Value = serde_json::from_str(&machine.text()).unwrap();
        assert_eq!(value["sandmill"], env!("CARGO_PKG_VERSION"));
        assert_eq!(value["wasmtime"], "1.2.3");
        assert!(value["memory"].as_u64().is_some_and(|memory| memory > 1 << 20), "{value}");
        assert!(value["kernel"].is_string() && value["processors_usable"].is_u64(), "{value}");
    }

    #[test]
    fn cgroup_limits_are_found_in_both_versions() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/b/memory.max", "1048576\n");
        write("a/b/cpu.max", "max 100000\n");
        write("a/cpu.max", "50000 100000\n");
        write("memory/j/memory.limit_in_bytes", "9223372036854771712\n");
        write("cpu/j/cpu.cfs_quota_us", "20000\n");
        write("cpu/j/cpu.cfs_period_us", "100000\n");
        write("cpu/cpu.cfs_quota_us", "-1\n");
        write("cpu/cpu.cfs_period_us", "100000\n");
        let own = [("", "/a/b"), ("memory", "/j"), ("cpu", "/j")];
        let own = own.map(|(controllers, path)| (controllers.to_owned(), path.to_owned()));
        let found: Vec<_> = cgroups(folder.path(), &own)
            .into_iter()
            .map(|group| format!("{} {:?}", group.path, group.limits))
            .collect();
        assert_eq!(
            found,
            [
                r#"/a/b [("memory.max", "1048576")]"#,
                r#"/a [("cpu.max", "50000 100000")]"#,
                r#"/j [("cpu.cfs_quota_us", "20000"), ("cpu.cfs_period_us", "100000")]"#
            ]
        );
    }

    #[test]
    fn the_system_has_a_name() {
        let text = "ID=debian\nPRETTY_NAME=\"Debian 12\"\n";
        assert_eq!(pretty_name(text).as_deref(), Some("Debian 12"));
        assert_eq!(pretty_name(""), None);
    }
}
