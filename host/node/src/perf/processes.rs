//! Samples of the resource use of the job's processes, and lists of processes.

use super::table::{known, line, megabytes, number};
use super::watch::private_memory;
use crate::model::{ProcessLists, WorkerId, on_one_line, to_f64, whole};
use procfs::process::{Process, Stat, all_processes};
use procfs::{Current, Uptime};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::time::Instant;

/// The columns of `processes_resource_usage.csv`.
pub(super) const HEADER: [&str; 11] = [
    "Time (UTC)",
    "Process",
    "PID",
    "CPU %",
    "CPU Seconds",
    "Resident Memory (MB)",
    "Private Memory (MB)",
    "Threads",
    "Open Files",
    "Read (MB)",
    "Written (MB)",
];

/// The number of processes in each of the sorted lists.
const SORTED_LIST_LENGTH: usize = 50;

/// Measures a process of the job: the leader, or a worker.
#[derive(Debug)]
pub(super) struct ProcessMeter {
    name: String,
    /// The time of the last sample, and the CPU seconds then.
    last: (Instant, f64),
}

impl ProcessMeter {
    /// A worker whose process was just started.
    pub(super) fn worker(worker: WorkerId) -> Self {
        Self { name: worker.to_string(), last: (Instant::now(), 0.0) }
    }

    /// The leader, which is this process.
    pub(super) fn leader(process: &Process) -> Self {
        let cpu = process.stat().map_or(0.0, |stat| cpu_seconds(&stat));
        Self { name: "leader".to_owned(), last: (Instant::now(), cpu) }
    }

    /// A line of `processes_resource_usage.csv`. `None` if the process is gone. CPU % is the share of one
    /// processor since the previous line.
    pub(super) fn line(&mut self, process: &Process, time: &str) -> Option<String> {
        let stat = process.stat().ok().filter(|stat| stat.state != 'Z')?;
        let now = Instant::now();
        let cpu = cpu_seconds(&stat);
        let (last_time, last_cpu) = std::mem::replace(&mut self.last, (now, cpu));
        let elapsed = now.duration_since(last_time).as_secs_f64();
        let percent = (elapsed > 0.0).then(|| (cpu - last_cpu).max(0.0) * 100.0 / elapsed);
        let io = process.io().ok();
        Some(line(&[
            time.to_owned(),
            self.name.clone(),
            stat.pid.to_string(),
            number(percent),
            number(Some(cpu)),
            megabytes(stat.rss.saturating_mul(procfs::page_size())),
            known(private_memory(process).map(megabytes)),
            stat.num_threads.to_string(),
            known(process.fd_count().ok()),
            known(io.map(|io| megabytes(io.rchar))),
            known(io.map(|io| megabytes(io.wchar))),
        ]))
    }
}

fn cpu_seconds(stat: &Stat) -> f64 {
    to_f64(stat.utime + stat.stime) / to_f64(procfs::ticks_per_second())
}

/// One process of the machine.
#[derive(Clone, Debug)]
struct ListedProcess {
    pid: i32,
    parent: i32,
    user: String,
    /// CPU time divided by lifetime, in percent, as in `ps`.
    cpu: f64,
    /// Bytes of resident memory.
    resident: u64,
    /// Bytes of virtual memory.
    size: u64,
    state: char,
    /// The lifetime in seconds.
    elapsed: f64,
    /// The name only, because arguments of other users' processes may contain secrets.
    command: String,
}

/// The processes that this user may see.
pub(super) struct ProcessList(Vec<ListedProcess>);

impl ProcessList {
    /// All processes, or those of the job: this process and its descendants.
    pub(super) fn now(which: ProcessLists) -> Self {
        let mut list = Self::of_machine();
        if which != ProcessLists::Machine {
            list.keep_family(rustix::process::getpid().as_raw_nonzero().get());
        }
        list
    }

    /// Keeps only a process and its descendants.
    fn keep_family(&mut self, root: i32) {
        let mut family = HashSet::from([root]);
        // One pass is not enough: a child may have a smaller id than its parent.
        loop {
            let before = family.len();
            let children = self.0.iter().filter(|listed| family.contains(&listed.parent));
            let children: Vec<i32> = children.map(|listed| listed.pid).collect();
            family.extend(children);
            if family.len() == before {
                break;
            }
        }
        self.0.retain(|listed| family.contains(&listed.pid));
    }

    /// All processes, by their ids.
    fn of_machine() -> Self {
        let uptime = Uptime::current().map_or(0.0, |uptime| uptime.uptime);
        let users = users(&fs::read_to_string("/etc/passwd").unwrap_or_default());
        let Ok(processes) = all_processes() else { return Self(Vec::new()) };
        let mut list: Vec<_> = processes
            .flatten()
            .filter_map(|process| ListedProcess::new(&process, uptime, &users))
            .collect();
        list.sort_by_key(|process| process.pid);
        Self(list)
    }

    /// The list in the format of `ps`.
    pub(super) fn text(&self) -> String {
        format_list(self.0.iter())
    }

    /// The list of the processes with the highest [`cpu`](ListedProcess::cpu), highest first.
    pub(super) fn by_cpu(&self) -> String {
        self.sorted(|a, b| b.cpu.total_cmp(&a.cpu))
    }

    /// The list of the processes with the most resident memory, largest first.
    pub(super) fn by_memory(&self) -> String {
        self.sorted(|a, b| b.resident.cmp(&a.resident))
    }

    fn sorted(
        &self,
        order: impl Fn(&ListedProcess, &ListedProcess) -> std::cmp::Ordering,
    ) -> String {
        let mut sorted: Vec<&ListedProcess> = self.0.iter().collect();
        sorted.sort_by(|a, b| order(a, b));
        format_list(sorted.into_iter().take(SORTED_LIST_LENGTH))
    }
}

impl ListedProcess {
    /// `None` if the process has ended.
    fn new(process: &Process, uptime: f64, users: &HashMap<u32, String>) -> Option<Self> {
        let stat = process.stat().ok()?;
        let started = to_f64(stat.starttime) / to_f64(procfs::ticks_per_second());
        let elapsed = (uptime - started).max(0.0);
        let cpu = if elapsed > 0.0 { cpu_seconds(&stat) * 100.0 / elapsed } else { 0.0 };
        let uid = process.uid().ok();
        let name = uid.and_then(|uid| users.get(&uid).cloned());
        Some(Self {
            pid: stat.pid,
            parent: stat.ppid,
            user: name.unwrap_or_else(|| known(uid)),
            cpu,
            resident: stat.rss.saturating_mul(procfs::page_size()),
            size: stat.vsize,
            state: stat.state,
            elapsed,
            command: on_one_line(&stat.comm).into_owned(),
        })
    }
}

/// The names of users by id, from the text of `/etc/passwd`.
fn users(passwd: &str) -> HashMap<u32, String> {
    let entry = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((fields.nth(1)?.parse().ok()?, name))
    };
    passwd.lines().filter_map(entry).collect()
}

fn format_list<'a>(processes: impl Iterator<Item = &'a ListedProcess>) -> String {
    let mut text = format!(
        "{:>8} {:>8} {:<12} {:>6} {:>10} {:>12} {:<4} {:>11} {}\n",
        "PID", "PPID", "USER", "%CPU", "RSS(KB)", "VSZ(KB)", "STAT", "ELAPSED", "COMMAND"
    );
    for process in processes {
        let _ = writeln!(
            text,
            "{:>8} {:>8} {:<12} {:>6.1} {:>10} {:>12} {:<4} {:>11} {}",
            process.pid,
            process.parent,
            process.user,
            process.cpu,
            process.resident >> 10,
            process.size >> 10,
            process.state,
            format_elapsed(process.elapsed),
            process.command
        );
    }
    text
}

/// A duration such as `3-04:05:06`: days, hours, minutes, seconds. Without the days if there are none.
fn format_elapsed(seconds: f64) -> String {
    let seconds = whole(seconds);
    let days = seconds / 86_400;
    let rest = seconds % 86_400;
    let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days == 0 { clock } else { format!("{days}-{clock}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_listed() {
        let list = ProcessList::now(ProcessLists::Machine);
        let me = i32::try_from(std::process::id()).unwrap();
        let mine = list.0.iter().find(|listed| listed.pid == me).expect("is listed");
        assert!(mine.resident > 0 && mine.size >= mine.resident);
        let text = list.text();
        assert_eq!(text.lines().count(), list.0.len() + 1);
        assert!(text.lines().any(|line| line.trim_start().starts_with(&format!("{me} "))));
    }

    /// Rules F17 and F19 in `docs/parallel-run-step.md`: the lists of processes.
    #[test]
    fn lists_are_sorted_by_cpu_and_memory() {
        let process = |pid, cpu, resident| ListedProcess {
            pid,
            parent: 1,
            user: "u".into(),
            cpu,
            resident,
            size: 1 << 20,
            state: 'S',
            elapsed: 90_061.0,
            command: format!("command {pid}"),
        };
        let list = ProcessList(vec![
            process(1, 0.5, 3 << 10),
            process(2, 99.0, 2 << 10),
            process(3, 7.0, 1 << 20),
        ]);
        let pids = |text: String| -> Vec<String> {
            let pid = |line: &str| line.split_whitespace().next().unwrap().to_owned();
            text.lines().skip(1).map(pid).collect()
        };
        assert_eq!(pids(list.by_cpu()), ["2", "3", "1"]);
        assert_eq!(pids(list.by_memory()), ["3", "1", "2"]);
        assert_eq!(
            list.text().lines().nth(1).unwrap(),
            "       1        1 u               0.5          3         1024 S     1-01:01:01 command 1"
        );
    }

    /// Readers of a job's reports see no arguments of other users' processes. If the operator has a
    /// policy, by default they see only the job's processes.
    #[test]
    fn arguments_and_processes_of_others_are_not_listed() {
        let secret = "--password=hunter2";
        let mut child =
            std::process::Command::new("sleep").arg("60").env("X", secret).spawn().unwrap();
        let mut shell =
            std::process::Command::new("sh").args(["-c", "sleep 60; :", secret]).spawn().unwrap();
        let pid = |child: &std::process::Child| i32::try_from(child.id()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        let machine = ProcessList::now(ProcessLists::Machine);
        let job = ProcessList::now(ProcessLists::Job);
        let is_in = |list: &ProcessList, pid| list.0.iter().any(|listed| listed.pid == pid);
        for list in [&machine, &job] {
            assert!(is_in(list, pid(&child)) && is_in(list, pid(&shell)));
            let text = format!("{}{}{}", list.text(), list.by_cpu(), list.by_memory());
            assert!(!text.contains("hunter2") && !text.contains("sleep 60"), "{text}");
            assert!(text.contains(" sleep\n"), "{text}");
        }
        assert!(is_in(&machine, 1) && !is_in(&job, 1));
        for process in [&mut child, &mut shell] {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    #[test]
    fn users_have_names() {
        assert_eq!(users("root:x:0:0:r:/:/bin/sh\nbad\nu:x:7:7")[&7], "u");
    }

    /// Rule F18 in `docs/parallel-run-step.md`: the samples of the job's processes.
    #[test]
    fn a_process_of_the_job_has_a_line() {
        let me = Process::myself().unwrap();
        let mut meter = ProcessMeter::leader(&me);
        let fields = meter.line(&me, "T").expect("is alive");
        assert_eq!(fields.matches(',').count(), HEADER.len() - 1, "{fields}");
        assert!(fields.starts_with("T,leader,"), "{fields}");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = Process::new(i32::try_from(child.id()).unwrap()).unwrap();
        child.wait().unwrap();
        assert_eq!(ProcessMeter::worker(WorkerId(1)).line(&process, "T"), None);
    }
}
