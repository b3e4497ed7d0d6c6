//! The keys of the operator's policy file.

use super::groups::LIMITS;
use super::key::{BOOL_EXPECTED, COUNT, Key, Kind, MAX_PROCESSES, MAX_TIMEOUT, key};
use super::models::CEILINGS_OF_INFERENCE;
use crate::model::{OsSandbox, ProcessLists};

/// Of the top level. A key that has a job's name is a ceiling for that key.
pub(crate) const POLICY: &[Key] = &[
    key(
        "limits",
        Kind::Group(LIMITS),
        "a map of limits (e.g. {memory: 1 GB})",
        "{memory: 1 GB}",
        "The highest that a job may ask for, key by key as in a job file.",
    ),
    key(
        "inference",
        Kind::Group(CEILINGS_OF_INFERENCE),
        "a map of settings (e.g. {threads: 2})",
        "{threads: 2}",
        "The highest that a job may ask for, as in a job file.",
    ),
    key(
        "process_count_per_node",
        Kind::Integer { min: 1, max: MAX_PROCESSES },
        "a whole number from 1 to 1000",
        "4",
        "The most workers of one job.",
    ),
    key(
        "gpus",
        Kind::Integer { min: 0, max: 1000 },
        "a whole number from 0 to 1000",
        "0",
        "The most GPUs of one job.",
    ),
    key(
        "run_max_try",
        Kind::Integer { min: 1, max: COUNT },
        "a whole number of at least 1",
        "3",
        "The most attempts at one mini-batch.",
    ),
    seconds("run_invocation_timeout", "The longest time-out for a call of run."),
    seconds("task_overhead_timeout", "The longest time-out for loading a mini-batch."),
    seconds("progress_update_timeout", "The longest time-out for a job that does not move."),
    seconds("first_task_creation_timeout", "The longest time-out for the first mini-batch."),
    key(
        "os_sandbox",
        Kind::Choice(|| OsSandbox::ALL.map(OsSandbox::name).to_vec()),
        "required, best-effort or off",
        "required",
        "The least that a job may insist on. required unless given.",
    ),
    key(
        "process_lists",
        Kind::Choice(|| ProcessLists::NAMED.map(|(name, _)| name).to_vec()),
        "machine, job or off",
        "job",
        "Which processes a job's reports (logs/perf) list, by name: all of the machine, the job's own, or none. job unless given.",
    ),
    key(
        "roots",
        Kind::Group(ROOTS),
        "a map with inputs, side_inputs, entry_scripts, outputs and job_directories",
        "{inputs: [/srv/data], side_inputs: [], entry_scripts: [/srv/scripts], outputs: [], \
         job_directories: [/srv/jobs]}",
        "The folders that what a job names may lie under. Anywhere unless given.",
    ),
    key(
        "entry_script_crates",
        Kind::Bool,
        BOOL_EXPECTED,
        "true",
        "Whether entry_script may be a guest crate, whose build scripts run on this machine. false \
         unless given.",
    ),
    key(
        "entry_script_modules",
        Kind::Bool,
        BOOL_EXPECTED,
        "false",
        "Whether entry_script may be a core module, of which a component is made. true unless given.",
    ),
    key(
        "models",
        Kind::Texts,
        "a list of names",
        "[digits]",
        "Models that a job may name. None unless given.",
    ),
    key(
        "guest_models",
        Kind::Bool,
        BOOL_EXPECTED,
        "true",
        "Whether an entry script may bring models of its own (inference.allow_guest_models). false \
         unless given.",
    ),
    key(
        "datastores",
        Kind::Texts,
        "a list of names",
        "[nightly]",
        "Datastores that a job may name. None unless given.",
    ),
    key(
        "machine",
        Kind::Group(MACHINE),
        "a map with workers, workers_per_tenant, memory and directory",
        "{workers: 8, memory: 32 GB}",
        "What all jobs on this machine may use at the same time, together.",
    ),
];

/// Below `roots`.
pub(crate) const ROOTS: &[Key] = &[
    folders("inputs", "Where inputs may lie."),
    folders("side_inputs", "Where side inputs may lie."),
    folders("entry_scripts", "Where entry_script and source_directory may lie."),
    folders("outputs", "Where output and parent may lie."),
    folders("job_directories", "Where job directories may lie."),
];

/// Below `machine`.
pub(crate) const MACHINE: &[Key] = &[
    key(
        "workers",
        Kind::Integer { min: 1, max: 100_000 },
        "a whole number of at least 1",
        "8",
        "The most workers of all jobs together.",
    ),
    key(
        "workers_per_tenant",
        Kind::Integer { min: 1, max: 100_000 },
        "a whole number of at least 1",
        "4",
        "The most workers of all jobs of one tenant together. Then only the command line names a job's tenant.",
    ),
    key(
        "memory",
        Kind::Size,
        "a size (e.g. 32 GB)",
        "32 GB",
        "The most that the budgets of all these workers may come to.",
    ),
    key(
        "directory",
        Kind::Text,
        "an absolute path to a folder",
        "/dev/shm/sandmill",
        "Where jobs keep count of each other.",
    ),
];

const fn seconds(name: &'static str, description: &'static str) -> Key {
    let kind = Kind::Seconds { max: MAX_TIMEOUT };
    key(name, kind, "a number of seconds above 0, up to 259200", "600", description)
}

const fn folders(name: &'static str, description: &'static str) -> Key {
    key(name, Kind::Texts, "a list of absolute paths to folders, [] for none", "[/]", description)
}
