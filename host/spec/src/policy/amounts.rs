//! The settings of a job that have ceilings.

use crate::JobSpec;
use crate::error::Origin;
use crate::model::{ByteSize, InferenceSettings, JobLimits, Limits};
use crate::raw::{RawJob, RawLimits};
use crate::scope::At;
use std::fmt;
use std::num::NonZero;
use std::thread;
use std::time::Duration;

const MINI_BATCHES: &str = "limits.mini_batches";
const REPORTS: &str = "limits.reports";
const FAILURES: &str = "limits.failures";

/// The ceilings of a policy that names none for these: what strangers' jobs have the leader write.
pub(super) const USUAL: [(&str, Amount); 3] = [
    (MINI_BATCHES, Amount::Count(10_000_000)),
    (REPORTS, Amount::Size(ByteSize(2 << 30))),
    (FAILURES, Amount::Count(1000)),
];

/// How much of something. Only amounts of one kind are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Amount {
    Size(ByteSize),
    Count(u64),
    Time(Duration),
}

/// Prints the amount as in a job file.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(size) => size.fmt(f),
            Self::Count(count) => count.fmt(f),
            Self::Time(time) => write!(f, "{} seconds", time.as_secs_f64()),
        }
    }
}

/// Where a job has the amount.
#[derive(Debug)]
pub(super) enum Slot<'a> {
    Size(&'a mut ByteSize),
    Count(&'a mut u64),
    Small(&'a mut u32),
    Time(&'a mut Duration),
    /// None means not measured, which is above every ceiling.
    Fuel(&'a mut Option<u64>),
    /// None means as long as it likes.
    Lasting(&'a mut Option<Duration>),
    /// None means not limited.
    Memory(&'a mut Option<ByteSize>),
    /// None means as many as this.
    Threads(&'a mut Option<u32>, u32),
}

impl Slot<'_> {
    /// None if there is no bound.
    pub(super) fn get(&self) -> Option<Amount> {
        Some(match self {
            Self::Size(size) => Amount::Size(**size),
            Self::Count(count) => Amount::Count(**count),
            Self::Small(count) => Amount::Count(u64::from(**count)),
            Self::Time(time) => Amount::Time(**time),
            Self::Fuel(fuel) => Amount::Count((**fuel)?),
            Self::Lasting(time) => Amount::Time((**time)?),
            Self::Memory(size) => Amount::Size((**size)?),
            Self::Threads(threads, share) => Amount::Count(u64::from(threads.unwrap_or(*share))),
        })
    }

    pub(super) fn set(&mut self, amount: Amount) {
        match (self, amount) {
            (Self::Size(slot), Amount::Size(size)) => **slot = size,
            (Self::Count(slot), Amount::Count(count)) => **slot = count,
            (Self::Small(slot), Amount::Count(count)) => {
                **slot = u32::try_from(count).unwrap_or(u32::MAX);
            }
            (Self::Time(slot), Amount::Time(time)) => **slot = time,
            (Self::Fuel(slot), Amount::Count(count)) => **slot = Some(count),
            (Self::Lasting(slot), Amount::Time(time)) => **slot = Some(time),
            (Self::Memory(slot), Amount::Size(size)) => **slot = Some(size),
            (Self::Threads(slot, _), Amount::Count(count)) => **slot = u32::try_from(count).ok(),
            // Both come from the tables below, key by key.
            _ => {}
        }
    }
}

/// All of a job's settings that have ceilings, by key. Those of inference only where the job has any.
pub(super) fn of_job(spec: &mut JobSpec) -> Vec<(&'static str, Slot<'_>)> {
    // Taken apart, so that each new setting gets a ceiling, or the reason why it needs none.
    let JobSpec {
        limits,
        job_limits: JobLimits { mini_batches, reports, failures, job_time },
        process_count,
        gpus,
        run_max_try,
        run_invocation_timeout,
        task_overhead_timeout,
        progress_update_timeout,
        first_task_creation_timeout,
        models,
        inference:
            InferenceSettings {
                allow_guest_models,
                threads,
                gpu_memory,
                // From the machine, never from a job.
                onnxruntime: _,
                cuda: _,
            },
        // Held against the roots by `places`, or the stores by `stores`.
        entry_script: _,
        source_directory: _,
        inputs: _,
        side_inputs: _,
        stored: _,
        output: _,
        upload: _,
        parent: _,
        // Held against the policy by `apply`.
        os_sandbox: _,
        // Names and words, which the size of a job file bounds.
        name: _,
        tenant: _,
        entry_script_digest: _,
        arguments: _,
        own_arguments: _,
        environment_variables: _,
        append_row_file_name: _,
        metrics_name_prefix: _,
        latest: _,
        notices: _,
        // How inputs are read, and what becomes of rows, within the limits.
        input_kind: _,
        partition_keys: _,
        output_action: _,
        output_format: _,
        ordered: _,
        output_files: _,
        strict_cardinality: _,
        deterministic: _,
        allow_reuse: _,
        // When a job ends early, within the time-outs.
        error_threshold: _,
        allowed_failed_count: _,
        allowed_failed_percent: _,
        // What is written down of the job, within the limits.
        resource_monitor_interval: _,
        profile: _,
        logging_level: _,
    } = spec;
    let computes = !models.is_empty() || *allow_guest_models;
    let has_gpus = *gpus > 0;
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = u32::try_from(cores).unwrap_or(u32::MAX) / (*process_count).max(1);
    let mut slots = of_limits(limits);
    slots.extend([
        (MINI_BATCHES, Slot::Count(mini_batches)),
        (REPORTS, Slot::Size(reports)),
        (FAILURES, Slot::Count(failures)),
        ("limits.job_time", Slot::Lasting(job_time)),
        ("process_count_per_node", Slot::Small(process_count)),
        ("gpus", Slot::Small(gpus)),
        ("run_max_try", Slot::Small(run_max_try)),
        ("run_invocation_timeout", Slot::Time(run_invocation_timeout)),
        ("task_overhead_timeout", Slot::Time(task_overhead_timeout)),
        ("progress_update_timeout", Slot::Time(progress_update_timeout)),
        ("first_task_creation_timeout", Slot::Time(first_task_creation_timeout)),
    ]);
    if computes {
        slots.push(("inference.threads", Slot::Threads(threads, share)));
    }
    if computes && has_gpus {
        slots.push(("inference.gpu_memory", Slot::Memory(gpu_memory)));
    }
    slots
}

/// Each limit of an instance, by key.
pub(super) fn of_limits(limits: &mut Limits) -> Vec<(&'static str, Slot<'_>)> {
    // Taken apart, so that no limit can be forgotten here.
    let Limits {
        memory,
        stack,
        fuel,
        read,
        results,
        row,
        logs,
        output,
        files,
        handles,
        transfer,
        models,
        tensors,
    } = limits;
    vec![
        ("limits.memory", Slot::Size(memory)),
        ("limits.stack", Slot::Size(stack)),
        ("limits.fuel", Slot::Fuel(fuel)),
        ("limits.read", Slot::Size(read)),
        ("limits.results", Slot::Size(results)),
        ("limits.row", Slot::Size(row)),
        ("limits.logs", Slot::Size(logs)),
        ("limits.output", Slot::Size(output)),
        ("limits.files", Slot::Count(files)),
        ("limits.handles", Slot::Count(handles)),
        ("limits.transfer", Slot::Size(transfer)),
        ("limits.models", Slot::Size(models)),
        ("limits.tensors", Slot::Size(tensors)),
    ]
}

/// What a file says of these settings, by key: the amount and where it stands.
pub(super) fn given(raw: &RawJob) -> Vec<(&'static str, Amount, Origin)> {
    fn of<T: Copy>(
        key: &'static str,
        at: &Option<At<T>>,
        amount: impl Fn(T) -> Amount,
    ) -> Option<(&'static str, Amount, Origin)> {
        at.as_ref().map(|at| (key, amount(at.value), at.origin.clone()))
    }
    let small = |count: u32| Amount::Count(u64::from(count));
    let RawLimits {
        memory,
        stack,
        fuel,
        read,
        results,
        row,
        logs,
        output,
        files,
        handles,
        transfer,
        models,
        tensors,
        mini_batches,
        reports,
        failures,
        job_time,
    } = &raw.limits;
    [
        of("limits.memory", memory, Amount::Size),
        of("limits.stack", stack, Amount::Size),
        of("limits.fuel", fuel, Amount::Count),
        of("limits.read", read, Amount::Size),
        of("limits.results", results, Amount::Size),
        of("limits.row", row, Amount::Size),
        of("limits.logs", logs, Amount::Size),
        of("limits.output", output, Amount::Size),
        of("limits.files", files, Amount::Count),
        of("limits.handles", handles, Amount::Count),
        of("limits.transfer", transfer, Amount::Size),
        of("limits.models", models, Amount::Size),
        of("limits.tensors", tensors, Amount::Size),
        of(MINI_BATCHES, mini_batches, Amount::Count),
        of(REPORTS, reports, Amount::Size),
        of(FAILURES, failures, Amount::Count),
        of("limits.job_time", job_time, Amount::Time),
        of("inference.threads", &raw.inference.threads, small),
        of("inference.gpu_memory", &raw.inference.gpu_memory, Amount::Size),
        of("process_count_per_node", &raw.process_count_per_node, small),
        of("gpus", &raw.gpus, small),
        of("run_max_try", &raw.run_max_try, small),
        of("run_invocation_timeout", &raw.run_invocation_timeout, Amount::Time),
        of("task_overhead_timeout", &raw.task_overhead_timeout, Amount::Time),
        of("progress_update_timeout", &raw.progress_update_timeout, Amount::Time),
        of("first_task_creation_timeout", &raw.first_task_creation_timeout, Amount::Time),
    ]
    .into_iter()
    .flatten()
    .collect()
}
