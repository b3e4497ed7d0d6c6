//! The keys of the operator's policy file.

use super::job::{JOB, LIMITS};
use super::key::{BOOL_EXPECTED, Key, KeyCeiling, KeyKind, NAME_EXPECTED, key};
use super::models::INFERENCE_CEILINGS;
use crate::model::{OsSandbox, ProcessLists};
use std::sync::LazyLock;

/// The keys at the top level. A key with the name of a job file's key is the ceiling for that key.
pub(crate) fn policy() -> &'static [Key] {
    static POLICY: LazyLock<Vec<Key>> = LazyLock::new(|| {
        let job_ceilings = JOB.iter().filter_map(|key| match key.ceiling {
            KeyCeiling::Key(expected, example, description) => {
                Some(Key { expected, example, description, ..*key })
            }
            KeyCeiling::Same => Some(*key),
            KeyCeiling::No(_) => None,
        });
        GROUP_CEILINGS
            .iter()
            .copied()
            .chain(job_ceilings)
            .chain(OTHER_KEYS.iter().copied())
            .collect()
    });
    &POLICY
}

/// Ceilings for the groups of a job.
const GROUP_CEILINGS: &[Key] = &[
    key(
        "limits",
        KeyKind::Group(LIMITS),
        "a map of limits (e.g. {memory: 1 GB})",
        "{memory: 1 GB}",
        "The highest limits that a job may request, by the keys of a job file.",
    ),
    key(
        "inference",
        KeyKind::Group(INFERENCE_CEILINGS),
        "a map of settings (e.g. {threads: 2})",
        "{threads: 2}",
        "The highest values that a job may request, by the keys of a job file.",
    ),
];

/// Keys of the policy that are not ceilings for keys of a job.
const OTHER_KEYS: &[Key] = &[
    key(
        "os_sandbox",
        KeyKind::Choice(|| OsSandbox::ALL.map(OsSandbox::name).to_vec()),
        "required, best-effort or off",
        "required",
        "The weakest mode that a job may request. required unless given.",
    ),
    key(
        "process_lists",
        KeyKind::Choice(|| ProcessLists::NAMED.map(|(name, _)| name).to_vec()),
        "machine, job or off",
        "job",
        "Which processes a job's reports (logs/perf) list, by name: all of the machine, the job's own, or none. job unless given.",
    ),
    key(
        "roots",
        KeyKind::Group(ROOTS),
        "a map with inputs, side_inputs, entry_scripts, outputs, job_directories and job_stores",
        "{inputs: [/srv/data], side_inputs: [], entry_scripts: [/srv/scripts], outputs: [], \
         job_directories: [/srv/jobs]}",
        "The folders below which all paths of a job must be. Any folder unless given.",
    ),
    key(
        "entry_script_crates",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "true",
        "Whether entry_script may be a guest crate, whose build scripts run on this machine. false \
         unless given.",
    ),
    key(
        "entry_script_modules",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "false",
        "Whether entry_script may be a core module, from which Sandmill makes a component. true unless given.",
    ),
    key(
        "entry_script_stores",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "true",
        "Whether the entry script of another machine's job may come from the job store, not only from a root. false if \
         there are roots, otherwise true.",
    ),
    key(
        "models",
        KeyKind::Texts,
        "a list of names",
        "[digits]",
        "Models that a job may name. None unless given.",
    ),
    key(
        "guest_models",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "true",
        "Whether an entry script may load its own models from bytes (inference.allow_guest_models). false \
         unless given.",
    ),
    key(
        "datastores",
        KeyKind::Texts,
        "a list of names",
        "[nightly]",
        "Datastores that a job may name. None unless given.",
    ),
    key(
        "store_roots",
        KeyKind::Group(STORE_ROOTS),
        "a map with inputs, side_inputs, outputs and job_stores",
        "{inputs: [s3://bucket/data/]}",
        "The addresses in stores below which all objects of a job must be. Any address of the datastores unless given.",
    ),
    key(
        "machine",
        KeyKind::Group(MACHINE),
        "a map with workers, workers_per_tenant, memory, newcomers_percent, node_disk, node_disk_free and directory",
        "{workers: 8, memory: 32 GB}",
        "What all jobs on this machine together may use at the same time.",
    ),
    key(
        "signers",
        KeyKind::Named(SIGNER),
        "a map of names to signers (e.g. ada: {keys: [sandmill-signer:...]})",
        "{ada: {keys: [sandmill-signer:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a]}}",
        "The signers of jobs in whose jobs an agent takes part. Jobs need no signature unless given.",
    ),
];

/// The keys of a signer.
const SIGNER: &[Key] = &[
    key("name", KeyKind::Name, NAME_EXPECTED, "ada", "The signer's name, if signers is a list."),
    key(
        "keys",
        KeyKind::Texts,
        "a list of public keys",
        "[sandmill-signer:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a]",
        "The signer's public keys, as `sandmill signer new` prints them.",
    ),
    key(
        "roots",
        KeyKind::Group(ROOTS),
        "a map of uses of folders to lists of folders",
        "{inputs: [/srv/data/ada]}",
        "Folders that replace those of `roots` for the signer's jobs. They must be below these.",
    ),
    key(
        "models",
        KeyKind::Texts,
        "a list of names",
        "[digits]",
        "Models that the signer's jobs may name, instead of `models`.",
    ),
    key(
        "datastores",
        KeyKind::Texts,
        "a list of names",
        "[nightly]",
        "Datastores that the signer's jobs may name, instead of `datastores`.",
    ),
    key(
        "entry_script_stores",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "true",
        "As entry_script_stores, for the signer's jobs. false if the signer has roots.",
    ),
    key(
        "store_roots",
        KeyKind::Group(STORE_ROOTS),
        "a map of uses of addresses to lists of addresses",
        "{inputs: [s3://bucket/data/ada/]}",
        "Addresses that replace those of `store_roots` for the signer's jobs. They must be below these.",
    ),
];

/// The keys below `roots`.
pub(crate) const ROOTS: &[Key] = &[
    folders("inputs", "Where inputs may be."),
    folders("side_inputs", "Where side inputs may be."),
    folders("entry_scripts", "Where entry_script and source_directory may be."),
    folders("outputs", "Where output and parent may be."),
    folders("job_directories", "Where job directories may be."),
    folders("job_stores", "Where job_store may be. Nowhere unless given."),
];

/// The keys below `store_roots`.
pub(crate) const STORE_ROOTS: &[Key] = &[
    addresses("inputs", "Where inputs in stores may be. Nowhere unless given."),
    addresses(
        "side_inputs",
        "Where side inputs and models in stores may be. Nowhere unless given.",
    ),
    addresses("outputs", "Where output may be, if it is in a store. Nowhere unless given."),
    addresses("job_stores", "Where job_store may be, if it is in a store. Nowhere unless given."),
];

/// The keys below `machine`.
pub(crate) const MACHINE: &[Key] = &[
    key(
        "workers",
        KeyKind::Integer { min: 1, max: 100_000 },
        "a whole number of at least 1",
        "8",
        "The most workers of all jobs together.",
    ),
    key(
        "workers_per_tenant",
        KeyKind::Integer { min: 1, max: 100_000 },
        "a whole number of at least 1",
        "4",
        "The most workers of all jobs of one tenant together. With this key, only the command line may set a job's tenant.",
    ),
    key(
        "memory",
        KeyKind::Size { min: 0, max: u64::MAX },
        "a size (e.g. 32 GB)",
        "32 GB",
        "The maximum sum of the memory budgets of all these workers.",
    ),
    key(
        "newcomers_percent",
        KeyKind::Integer { min: 0, max: 99 },
        "a whole number from 0 to 99",
        "10",
        "The percentage of the machine that stays free for the next tenant while one tenant has jobs.",
    ),
    key(
        "node_disk",
        KeyKind::Size { min: 1 << 20, max: u64::MAX },
        "a size of at least 1 MB (e.g. 200 GB)",
        "200 GB",
        "How much of the disk the rows and files of an agent's jobs may take, before the agent takes no more work.",
    ),
    key(
        "node_disk_free",
        KeyKind::Size { min: 0, max: u64::MAX },
        "a size (e.g. 10 GB)",
        "10 GB",
        "If less is free on the disk of an agent's work folder or cache, the agent takes no more work.",
    ),
    key(
        "directory",
        KeyKind::Text,
        "an absolute path to a folder",
        "/dev/shm/sandmill",
        "The folder in which jobs count each other's workers.",
    ),
];

const fn addresses(name: &'static str, description: &'static str) -> Key {
    key(
        name,
        KeyKind::Texts,
        "a list of addresses of folders in stores (e.g. s3://bucket/data/)",
        "[s3://bucket/data/]",
        description,
    )
}

const fn folders(name: &'static str, description: &'static str) -> Key {
    key(
        name,
        KeyKind::Texts,
        "a list of absolute paths to folders, [] for none",
        "[/]",
        description,
    )
}
