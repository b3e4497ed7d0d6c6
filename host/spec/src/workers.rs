//! Determines the numbers of workers and GPUs.

use super::defaults::Defaults;
use super::error::ErrorReport;
use super::machine::MachineSize;
use super::raw::RawJob;
use super::scope::Located;

/// The environment variable with the machine's number of GPUs (docs/parallel-run-step.md G3).
const GPU_COUNT_VARIABLE: &str = "AZ_BATCHAI_GPU_COUNT_FOUND";

const MAX_GPUS: u32 = 1000;

/// The numbers of workers and of GPUs.
pub(super) fn check(
    raw: &RawJob,
    defaults: &Defaults<'_>,
    machine: &MachineSize,
    report: &ErrorReport,
) -> (u32, u32) {
    let gpus = gpus(raw.gpus.as_ref(), machine, report);
    let given = raw.process_count_per_node.as_ref();
    (process_count(given, gpus, defaults, machine, report), gpus)
}

/// The number of GPUs: the given number, or else the number in the environment, or else the driver's number.
fn gpus(given: Option<&Located<u32>>, machine: &MachineSize, report: &ErrorReport) -> u32 {
    if let Some(given) = given {
        return given.value;
    }
    let found = machine.gpus_found.as_deref();
    let text = found.unwrap_or_default().to_string_lossy();
    match text.trim().parse::<u32>() {
        Ok(count) if count <= MAX_GPUS => count,
        Ok(count) => {
            report.notice(format!(
                "{GPU_COUNT_VARIABLE} is {count} in Sandmill's environment, and a job has at most {MAX_GPUS} \
                 GPUs; workers get no GPU: set gpus to the number of GPUs"
            ));
            0
        }
        _ if text.trim().is_empty() => (machine.count_gpus)().min(MAX_GPUS),
        _ => {
            report.notice(format!(
                "{GPU_COUNT_VARIABLE} is {text:?} in Sandmill's environment, which is not a number of GPUs; \
                 workers get no GPU: set gpus to the number of GPUs"
            ));
            0
        }
    }
}

/// The number of workers: the given number, or else 1 if there are GPUs, or else the number of cores
/// (docs/parallel-run-step.md, Where the sources disagree).
fn process_count(
    given: Option<&Located<u32>>,
    gpus: u32,
    defaults: &Defaults<'_>,
    machine: &MachineSize,
    report: &ErrorReport,
) -> u32 {
    if let Some(given) = given {
        return given.value;
    }
    if gpus > 0 {
        let gpu_phrase = match gpus {
            1 => String::from("which gets the GPU"),
            _ => format!("on one of {gpus} GPUs; for one worker per GPU set it to {gpus}"),
        };
        let key = report.name_in_file("process_count_per_node");
        report.notice(format!("{key} is not given: 1 worker, {gpu_phrase}"));
        return 1;
    }
    let count = machine.cores.clamp(1, 1000);
    defaults.mention("process_count_per_node", &format!("{count}, the number of cores"));
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::JobFileDialect;
    use std::ffi::OsString;

    /// G3: the count comes from the job file, or else from the environment, or else from the machine. A bad
    /// value in the environment causes a notice.
    #[test]
    fn gpus_come_from_the_environment() {
        for (found, count, notices) in [
            (None, 3, 0),
            (Some("2"), 2, 0),
            (Some(" 4 "), 4, 0),
            (Some("0"), 0, 0),
            (Some(""), 3, 0),
            (Some("two"), 0, 1),
            (Some("-1"), 0, 1),
            (Some("100000"), 0, 1),
        ] {
            let report = ErrorReport::default();
            let gpus_found = found.map(OsString::from);
            let machine = MachineSize { gpus_found, count_gpus: || 3, ..MachineSize::default() };
            assert_eq!(gpus(None, &machine, &report), count, "{found:?}");
            assert_eq!(report.take_notices().len(), notices, "{found:?}");
        }
    }

    /// C6, 1.12: with GPUs there is one worker. A notice says how to get one for each GPU.
    #[test]
    fn there_is_one_worker_if_there_are_gpus() {
        let report = ErrorReport::default();
        let defaults = Defaults::new(JobFileDialect::Own, &report);
        let machine = MachineSize { cores: 7, ..MachineSize::default() };
        assert_eq!(process_count(None, 4, &defaults, &machine, &report), 1);
        assert_eq!(
            report.take_notices(),
            [
                "process_count_per_node is not given: 1 worker, on one of 4 GPUs; for one worker per \
              GPU set it to 4"
            ]
        );
        assert_eq!(process_count(None, 1, &defaults, &machine, &report), 1);
        assert_eq!(
            report.take_notices(),
            ["process_count_per_node is not given: 1 worker, which gets the GPU"]
        );
        assert_eq!(process_count(None, 0, &defaults, &machine, &report), 7);
        assert!(report.take_notices().is_empty());
    }
}
