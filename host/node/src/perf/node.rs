//! Samples of the resource use of the whole machine.

use super::gpus::GpuUsages;
use super::table::{known, line, megabytes, number};
use crate::model::to_f64;
use procfs::net::dev_status;
use procfs::{Current, CurrentSI, KernelStats, Meminfo};
use std::fs;
use std::path::{Path, PathBuf};

/// The first columns of `node_resource_usage.csv`; see rule K2 in `docs/parallel-run-step.md`.
const HEADER: [&str; 14] = [
    "Time (UTC)",
    "CPU %",
    "Memory Total (MB)",
    "Memory Available (MB)",
    "Memory Used (MB)",
    "Memory Used %",
    "Disk Reads",
    "Disk Writes",
    "Disk Read (MB)",
    "Disk Written (MB)",
    "Network Sent (MB)",
    "Network Received (MB)",
    "TCP Connections",
    "UDP Connections",
];

/// The kernel counts in sectors of this size, even if the disk's own sectors have another size.
const SECTOR_BYTES: u64 = 512;

/// The kernel's counters since the machine was started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct KernelCounters {
    /// Clock ticks in which a processor was busy.
    cpu_busy: u64,
    /// All clock ticks of the processors.
    cpu_total: u64,
    /// Reads, writes, sectors read, sectors written.
    disk: Option<[u64; 4]>,
    /// Bytes sent, bytes received.
    network: Option<[u64; 2]>,
}

/// Remembers the counters at the start of the job and at the last sample.
#[derive(Debug)]
pub(super) struct NodeCounters {
    sys: PathBuf,
    gpus: GpuUsages,
    header: String,
    first: KernelCounters,
    last: KernelCounters,
}

impl NodeCounters {
    /// Begins counting.
    pub(super) fn new() -> Self {
        let sys = PathBuf::from("/sys");
        let now = KernelCounters::now(&sys);
        let mut header: Vec<String> = HEADER.map(str::to_owned).to_vec();
        let gpus = GpuUsages::open(&sys);
        header.extend(gpus.header());
        Self { header: line(&header), sys, gpus, first: now, last: now }
    }

    pub(super) fn header(&self) -> &str {
        &self.header
    }

    /// Whether there are GPUs that report how busy they are.
    pub(super) fn has_gpus(&self) -> bool {
        self.header.contains(",GPU ")
    }

    /// The average use of a job's GPUs, in percent. `None` if no GPU reports it.
    pub(super) fn gpu_percent(&self, leased: &[u32]) -> Option<u32> {
        self.gpus.percent(leased)
    }

    /// Takes a sample and returns its line. CPU % is the busy share of the processors since the
    /// previous sample. Disk and network values count from the start of the job.
    pub(super) fn line(&mut self, time: &str) -> String {
        let now = KernelCounters::now(&self.sys);
        let mut fields = vec![time.to_owned(), number(now.cpu_percent(&self.last))];
        self.last = now;
        fields.extend(memory());
        fields.extend(now.transfers(&self.first));
        fields.push(known(connections("TCP")));
        fields.push(known(connections("UDP")));
        fields.extend(self.gpus.fields());
        line(&fields)
    }
}

impl KernelCounters {
    fn now(sys: &Path) -> Self {
        let mut now = Self::default();
        if let Ok(KernelStats { total, .. }) = KernelStats::current() {
            let idle = total.idle + total.iowait.unwrap_or(0);
            let rest = [total.irq, total.softirq, total.steal].map(|time| time.unwrap_or(0));
            now.cpu_busy = total.user + total.nice + total.system + rest.iter().sum::<u64>();
            now.cpu_total = now.cpu_busy + idle;
        }
        now.disk = disk_counters(sys);
        now.network = dev_status().ok().map(|devices| {
            let real = devices.values().filter(|device| device.name != "lo");
            real.fold([0, 0], |[sent, received], device| {
                [sent + device.sent_bytes, received + device.recv_bytes]
            })
        });
        now
    }

    /// The busy share of the processors since `before`. `None` if no time has passed.
    fn cpu_percent(&self, before: &Self) -> Option<f64> {
        let total = self.cpu_total.checked_sub(before.cpu_total).filter(|total| *total > 0)?;
        Some(to_f64(self.cpu_busy.saturating_sub(before.cpu_busy)) * 100.0 / to_f64(total))
    }

    /// Reads, writes, megabytes read and written, megabytes sent and received since `first`.
    fn transfers(&self, first: &Self) -> Vec<String> {
        let since = |now: Option<u64>, then: Option<u64>| {
            now.map(|now| now.saturating_sub(then.unwrap_or(0)))
        };
        let disk = |index: usize| since(self.disk.map(|d| d[index]), first.disk.map(|d| d[index]));
        let network =
            |index: usize| since(self.network.map(|n| n[index]), first.network.map(|n| n[index]));
        vec![
            known(disk(0)),
            known(disk(1)),
            known(disk(2).map(|sectors| megabytes(sectors * SECTOR_BYTES))),
            known(disk(3).map(|sectors| megabytes(sectors * SECTOR_BYTES))),
            known(network(0).map(megabytes)),
            known(network(1).map(megabytes)),
        ]
    }
}

/// Reads, writes, sectors read and sectors written of whole disks. Devices on top of other devices
/// (partitions, loops, mapped volumes) are left out, because they would be counted twice.
fn disk_counters(sys: &Path) -> Option<[u64; 4]> {
    let stacked_prefixes = ["loop", "ram", "zram", "dm-", "md"];
    let is_whole = |name: &str| {
        !stacked_prefixes.iter().any(|prefix| name.starts_with(prefix))
            && sys.join("block").join(name).exists()
    };
    let disks = procfs::diskstats().ok()?;
    let whole = disks.iter().filter(|disk| is_whole(&disk.name));
    Some(whole.fold([0; 4], |sum, disk| {
        let counters = [disk.reads, disk.writes, disk.sectors_read, disk.sectors_written];
        std::array::from_fn(|index| sum[index] + counters[index])
    }))
}

/// The memory fields: total, available, used, used percent.
fn memory() -> [String; 4] {
    let Ok(memory) = Meminfo::current() else { return Default::default() };
    let total = memory.mem_total;
    // Kernels before 3.14 do not report the available memory.
    let available = memory.mem_available.unwrap_or(memory.mem_free + memory.cached);
    let used = total.saturating_sub(available);
    let percent = (total > 0).then(|| to_f64(used) * 100.0 / to_f64(total));
    [megabytes(total), megabytes(available), megabytes(used), number(percent)]
}

/// How many sockets of a protocol are in use, for both versions of IP. We read the kernel's counts, because
/// its list of connections takes tens of milliseconds even if there are few.
fn connections(protocol: &str) -> Option<u64> {
    let ipv4 = fs::read_to_string("/proc/net/sockstat").ok()?;
    let ipv6 = fs::read_to_string("/proc/net/sockstat6").unwrap_or_default();
    Some(in_use(&ipv4, protocol)? + in_use(&ipv6, &format!("{protocol}6")).unwrap_or(0))
}

/// The count in a line such as `TCP: inuse 5 orphan 0`.
fn in_use(text: &str, protocol: &str) -> Option<u64> {
    let count_in =
        |line: &str| line.strip_prefix(protocol)?.strip_prefix(": inuse ").map(str::to_owned);
    text.lines().find_map(count_in)?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K2: the columns of node_resource_usage.csv.
    #[test]
    fn a_line_has_a_field_for_each_column() {
        let mut node = NodeCounters::new();
        let line = node.line("T");
        assert_eq!(line.matches(',').count(), node.header().matches(',').count());
        let fields: Vec<&str> = line.trim_end().split(',').collect();
        let number = |index: usize| fields[index].parse::<f64>().expect(fields[index]);
        assert!(number(2) >= number(3) && number(2) >= number(4), "{line}");
        assert!((0.0..=100.0).contains(&number(5)), "{line}");
    }

    #[test]
    fn sockets_are_counted() {
        let text =
            "sockets: used 35\nTCP: inuse 5 orphan 0 tw 0 alloc 6 mem 1\nUDP: inuse 2 mem 1\n";
        assert_eq!((in_use(text, "TCP"), in_use(text, "UDP")), (Some(5), Some(2)));
        assert_eq!((in_use(text, "TCP6"), in_use("", "TCP")), (None, None));
    }

    #[test]
    fn counters_are_shown_as_differences() {
        let first = KernelCounters {
            cpu_busy: 100,
            cpu_total: 1000,
            disk: Some([1, 2, 2048, 0]),
            network: Some([10, 20]),
        };
        let later = KernelCounters {
            cpu_busy: 150,
            cpu_total: 1200,
            disk: Some([4, 2, 4096, 4096]),
            network: Some([10 + (1 << 20), 20]),
        };
        assert_eq!(later.cpu_percent(&first), Some(25.0));
        assert_eq!(later.cpu_percent(&later), None);
        assert_eq!(later.transfers(&first), ["3", "0", "1.00", "2.00", "1.00", "0.00"]);
        let nothing = KernelCounters::default();
        assert_eq!(nothing.transfers(&nothing), [""; 6]);
    }
}
