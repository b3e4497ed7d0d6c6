//! `sandmill doctor`: checks what this machine has for running untrusted entry scripts, and what is missing.

use super::broker::BrokerArgument;
use super::config::Config;
use super::datastores::DatastoresArgument;
use super::doctor_broker::DoctorBroker;
use super::doctor_checks::{DoctorCheck, OptionalTools, in_short, job_store, job_store_at};
use super::exit::{Exit, Problem};
use super::job_store_place::{address, objects_at};
use super::policy::PolicyArgument;
use super::run::{BackendArguments, this_program};
use super::{print, print_json};
use crate::compile::Cache;
use crate::engine;
use crate::gpu::{Inventory, library_folders};
use crate::inference::{BackendState, Probe};
use crate::model::{ByteSize, Feature, NVIDIA_DEVICES, OsSandbox};
use crate::node;
use crate::wall;
use rustix::fs::statvfs;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The findings. The names of the fields are those of the JSON.
#[derive(Debug, Serialize)]
struct Findings {
    /// Whether a job with `os_sandbox: required` can run here.
    required_works: bool,
    policy: DoctorPolicy,
    sandmill: &'static str,
    /// The optional features that this build has.
    features: Vec<Feature>,
    kernel: Option<String>,
    architecture: &'static str,
    layers: Vec<DoctorCheck>,
    /// Whether each worker gets its own cgroup.
    cgroup_v2: DoctorCheck,
    gpus: DoctorGpus,
    /// The backends for models.
    backends: Vec<BackendState>,
    #[serde(flatten)]
    optional_tools: Option<OptionalTools>,
    /// The folder of `--store`.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_store: Option<DoctorCheck>,
    /// The broker, if one is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    broker: Option<DoctorBroker>,
    /// Whether the text has the reasons in full.
    #[serde(skip)]
    is_verbose: bool,
    /// Whether this user is root: root's jobs could read all files even in the sandbox.
    runs_as_root: bool,
    /// How many files this process may have open. Null if there is no limit.
    open_files: Option<u64>,
    /// The number to which this process may raise `open_files`. Null if there is no limit.
    open_files_at_most: Option<u64>,
    cache: CacheDisk,
    /// The user's config file; null if there is none, or if there is a policy.
    config_file: Option<PathBuf>,
    /// The folder of job directories, unless an option names another.
    jobs_root: PathBuf,
}

/// The operator's policy.
#[derive(Debug, Serialize)]
struct DoctorPolicy {
    /// Null if there is no policy.
    file: Option<PathBuf>,
    /// Why the policy cannot be used. In that case, no job runs.
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct DoctorGpus {
    /// The GPUs that jobs may use.
    count: usize,
    /// The driver's device files that a worker needs and that are missing.
    missing_devices: Vec<PathBuf>,
    #[serde(flatten)]
    inventory: Inventory,
}

#[derive(Debug, Serialize)]
struct CacheDisk {
    /// The folder for compiled entry scripts.
    folder: Option<PathBuf>,
    /// The free bytes on the disk of the folder.
    free: Option<u64>,
    /// Why the folder cannot be used.
    problem: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct DoctorArguments {
    /// Also tries whether this folder, or address in a store, can be a job_store.
    #[arg(long, value_name = "STORE")]
    store: Option<PathBuf>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// The broker to try.
    #[command(flatten)]
    broker: BrokerArgument,
    #[command(flatten)]
    datastores: DatastoresArgument,
    #[command(flatten)]
    backends: BackendArguments,
    #[command(flatten)]
    policy: PolicyArgument,
}

/// Prints the findings on standard output, as text or as JSON. The exit code is 2 if jobs with `os_sandbox:
/// required` cannot run, if the folder of `--store` cannot be a job store, or if the broker cannot be used.
pub(super) fn doctor(arguments: &DoctorArguments, is_verbose: bool) -> Result<Exit, Problem> {
    let DoctorArguments { store, json, broker, datastores, backends, policy } = arguments;
    let config = Config::load(policy)?;
    let mut findings = Findings::now(policy, &config);
    findings.backends = self::backends(backends, policy, &config)?;
    findings.optional_tools =
        Some(OptionalTools::now(policy, datastores, config.cache_dir(None).as_deref()));
    findings.job_store = store.as_deref().map(|store| tried(store, datastores)).transpose()?;
    findings.broker = DoctorBroker::now(broker);
    findings.is_verbose = is_verbose;
    if *json {
        let text = serde_json::to_string_pretty(&findings).map_err(Problem::usage)? + "\n";
        print_json(&text)?;
    } else {
        print(&findings.text())?;
    }
    let store_works = findings.job_store.is_none_or(|store| store.missing.is_none());
    let broker_works = findings.broker.as_ref().is_none_or(DoctorBroker::works);
    Ok(if findings.required_works && store_works && broker_works {
        Exit::Completed
    } else {
        Exit::Usage
    })
}

/// Tries whether a folder or an address can be a `job_store`.
fn tried(store: &Path, datastores: &DatastoresArgument) -> Result<DoctorCheck, Problem> {
    Ok(match address(store)? {
        Some(address) => job_store_at(&address, &objects_at(&address, datastores)?),
        None => job_store(store),
    })
}

impl Findings {
    fn now(policy: &PolicyArgument, config: &Config) -> Self {
        let policy = DoctorPolicy::from_argument(policy);
        let layers: Vec<DoctorCheck> = wall::probe().into_iter().map(DoctorCheck::from).collect();
        let limit = getrlimit(Resource::Nofile);
        Self {
            required_works: policy.problem.is_none()
                && layers.iter().all(|layer| layer.missing.is_none()),
            policy,
            sandmill: env!("CARGO_PKG_VERSION"),
            features: Feature::ALL.into_iter().filter(|feature| node::has(*feature)).collect(),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            architecture: std::env::consts::ARCH,
            layers,
            cgroup_v2: cgroup(),
            gpus: DoctorGpus::now(),
            backends: Vec::new(),
            optional_tools: None,
            job_store: None,
            broker: None,
            is_verbose: false,
            runs_as_root: rustix::process::geteuid().is_root(),
            open_files: limit.current,
            open_files_at_most: limit.maximum,
            cache: CacheDisk::now(config),
            config_file: config.file().map(Path::to_owned),
            jobs_root: config.jobs_root(),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let kernel = self.kernel.as_deref().unwrap_or("of an unknown version");
        let sandmill = self.sandmill;
        let processor = self.architecture;
        let _ = writeln!(text, "sandmill {sandmill}, kernel {kernel}, {processor}");
        let _ = writeln!(text, "{}", features_text(&self.features));
        text.push_str("\nThe wall around the processes of a job:\n");
        self.layers.iter().for_each(|layer| layer.write_to(&mut text, "MISSING"));
        text.push_str("\nWhat jobs may ask for:\n");
        self.policy.write_to(&mut text);
        text.push_str("\nInference backends:\n");
        self.backends.iter().for_each(|state| describe_backend(state, self.is_verbose, &mut text));
        if !self.features.contains(&Feature::Inference) {
            let _ = writeln!(text, "  {:<9} {}", "-", Feature::Inference.absence());
        }
        text.push_str("\nOther resources:\n");
        self.cgroup_v2.write_to(&mut text, "not used");
        self.gpus.write_to(&mut text);
        if self.runs_as_root {
            let _ = writeln!(text, "  {:<9} {}", "note", engine::RUNS_AS_ROOT);
        }
        let files = |count: Option<u64>| count.map_or("any number".to_owned(), |n| n.to_string());
        let now = files(self.open_files);
        let most = files(self.open_files_at_most);
        let _ = writeln!(
            text,
            "  {:<9} open files: the limit is {now}, and can be raised to {most}",
            "ok"
        );
        self.optional_tools.iter().for_each(|optional_tools| optional_tools.write_to(&mut text));
        self.job_store.iter().for_each(|check| check.write_to(&mut text, "WRONG"));
        self.cache.write_to(&mut text);
        let jobs = self.jobs_root.display();
        let _ = writeln!(text, "  {:<9} job directories: {jobs}", "ok");
        let _ = match (&self.config_file, &self.policy.file) {
            (Some(file), _) => writeln!(text, "  {:<9} config file: {}", "ok", file.display()),
            (None, Some(_)) => writeln!(text, "  {:<9} config file: not read under a policy", "-"),
            (None, None) => writeln!(text, "  {:<9} config file: none", "-"),
        };
        self.broker.iter().for_each(|broker| broker.write_to(&mut text));
        text.push_str(if self.required_works {
            "\nJobs with `os_sandbox: required`, which is the default, run on this machine.\n"
        } else {
            "\nJobs with `os_sandbox: required`, which is the default, do not run on this machine: do \
             what is said above, or set `os_sandbox: best-effort` for entry scripts and inputs that \
             you trust.\n"
        });
        text
    }
}

impl DoctorPolicy {
    fn from_argument(argument: &PolicyArgument) -> Self {
        let problem = argument.load().err().map(|problem| problem.to_string());
        Self { file: argument.which(), problem }
    }

    fn write_to(&self, text: &mut String) {
        let _ = match (&self.file, &self.problem) {
            (None, _) => writeln!(
                text,
                "  {:<9} the operator's policy: none is in force, so jobs may ask for anything",
                "-"
            ),
            (Some(file), None) => {
                writeln!(text, "  {:<9} the operator's policy: {}", "ok", file.display())
            }
            (Some(file), Some(problem)) => {
                writeln!(text, "  {:<9} the operator's policy: {}", "WRONG", file.display())
                    .and_then(|()| {
                        problem.lines().try_for_each(|line| writeln!(text, "  {:<9} {line}", ""))
                    })
            }
        };
    }
}

fn cgroup() -> DoctorCheck {
    let remedy = "nothing has to be done: without cgroups, Sandmill still limits and watches the memory of \
                  workers. To use cgroups, run the leader alone in a delegated cgroup: \
                  `systemd-run --user --scope -p Delegate=yes sandmill run JOB.yaml`";
    DoctorCheck::new("cgroup v2", wall::probe_cgroup().map_err(|error| error.to_string()), remedy)
}

impl DoctorGpus {
    fn now() -> Self {
        let inventory = Inventory::now();
        let needed = NVIDIA_DEVICES.iter().map(PathBuf::from);
        let missing_devices = needed.filter(|path| !path.exists()).collect();
        Self { count: inventory.gpus.len(), missing_devices, inventory }
    }

    fn write_to(&self, text: &mut String) {
        let Inventory { gpus, known, missing, driver, cuda } = &self.inventory;
        let version = |name, version: &Option<String>| {
            version.as_ref().map_or(String::new(), |version| format!(", {name} {version}"))
        };
        let versions = version("driver", driver) + &version("CUDA up to", cuda);
        let _ = match (gpus.len(), known) {
            (0, true) => {
                writeln!(text, "  {:<9} GPUs: none that jobs may use{versions}", "MISSING")
            }
            (0, false) => writeln!(text, "  {:<9} GPUs: none", "-"),
            (count, _) => writeln!(text, "  {:<9} GPUs: {count}{versions}", "ok"),
        };
        for gpu in gpus {
            let memory = gpu.memory.map_or(String::new(), |bytes| {
                format!(", {} of memory", ByteSize(bytes).rounded())
            });
            let part = gpu.part_of.map_or(String::new(), |of| format!(", a part of GPU {of}"));
            let index = gpu.index;
            let name = &gpu.name;
            let uuid = &gpu.uuid;
            let _ = writeln!(text, "  {:<9} GPU {index}: {name}{memory}{part}, {uuid}", "");
        }
        if let Some(missing) = missing {
            let _ = writeln!(text, "  {:<9} {missing}", "");
        }
    }
}

/// The features of a build: `built with inference, stores; without cuda`.
fn features_text(features: &[Feature]) -> String {
    let listed = |has: bool| {
        let of = Feature::ALL.into_iter().filter(|feature| features.contains(feature) == has);
        of.map(Feature::name).collect::<Vec<_>>().join(", ")
    };
    match (listed(true), listed(false)) {
        (all, none) if none.is_empty() => format!("built with {all}"),
        (none, all) if none.is_empty() => format!("built without {all}"),
        (with, without) => format!("built with {with}; without {without}"),
    }
}

/// The backends, each tested in its own process.
fn backends(
    arguments: &BackendArguments,
    policy: &PolicyArgument,
    config: &Config,
) -> Result<Vec<BackendState>, Problem> {
    if !node::has(Feature::Inference) {
        return Ok(Vec::new());
    }
    let program = this_program()?;
    let os_sandbox = OsSandbox::BestEffort;
    let library = arguments.onnxruntime(policy.which().as_deref(), config);
    let library = library.map(|named| named.find());
    let cuda = library_folders(library.as_ref().and_then(|found| found.as_deref().ok()));
    let probe = Probe { program, os_sandbox, cuda };
    let onnxruntime = match library {
        Some(Ok(library)) => probe.onnxruntime_and_gpu(&library),
        Some(Err(why)) => BackendState::missing_onnxruntime(why.to_string()),
        None => BackendState::missing_onnxruntime(
            "its library was not found: run \"pip install onnxruntime\" in the active virtual \
             environment, or name its library with SANDMILL_ONNXRUNTIME=PATH"
                .to_owned(),
        ),
    };
    Ok(vec![probe.tract(), onnxruntime])
}

fn describe_backend(state: &BackendState, is_verbose: bool, text: &mut String) {
    let version = state.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let name = format!("{}{version}", state.name);
    let _ = match (&state.missing, &state.library) {
        (Some(why), _) => writeln!(text, "  {:<9} {name}: {why}", "-"),
        (None, None) => writeln!(text, "  {:<9} {name}, a part of Sandmill", "ok"),
        (None, Some(library)) => writeln!(text, "  {:<9} {name}: {}", "ok", library.display()),
    };
    if state.missing.is_none() {
        let _ = match &state.no_gpu {
            Some(why) => {
                let why = in_short(why, is_verbose);
                writeln!(text, "  {:<9} {} on GPUs: {why}", "-", state.name)
            }
            None => writeln!(text, "  {:<9} {} on GPUs", "ok", state.name),
        };
    }
}

impl CacheDisk {
    fn now(config: &Config) -> Self {
        let Some(folder) = config.cache_dir(None).or_else(Cache::default_folder) else {
            let problem = "none of SANDMILL_CACHE_DIR, XDG_CACHE_HOME and HOME is set".to_owned();
            return Self { folder: None, free: None, problem: Some(problem) };
        };
        // The folder need not exist yet.
        let there = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
        let free = statvfs(there).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        let checked = Cache::check(&folder).map_err(|error| error.to_string());
        let problem = checked.err().or_else(|| free.err().map(|errno| errno.to_string()));
        let free = free.ok();
        Self { folder: Some(folder), free, problem }
    }

    fn write_to(&self, text: &mut String) {
        let folder = self.folder.as_ref().map_or("none".to_owned(), |at| at.display().to_string());
        let word = if self.problem.is_none() { "ok" } else { "MISSING" };
        let _ = write!(text, "  {word:<9} compiled entry scripts: {folder}");
        if let Some(free) = self.free {
            let _ = write!(text, ", {} free", ByteSize(free).rounded());
        }
        if let Some(problem) = &self.problem {
            let _ = write!(text, ": {problem}");
        }
        text.push('\n');
    }
}

fn first_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_features_of_a_build_are_listed() {
        use Feature::{Cuda, Inference, Stores};
        assert_eq!(features_text(&[Inference, Cuda, Stores]), "built with inference, cuda, stores");
        assert_eq!(
            features_text(&[Inference, Stores]),
            "built with inference, stores; without cuda"
        );
        assert_eq!(features_text(&[]), "built without inference, cuda, stores");
    }

    #[test]
    fn each_gpu_has_its_line() {
        let describe = |json: &str| {
            let inventory = serde_json::from_str(json).unwrap();
            let mut text = String::new();
            DoctorGpus { count: 0, missing_devices: Vec::new(), inventory }.write_to(&mut text);
            text
        };
        let two = r#"{"known": true, "driver": "580.82", "cuda": "13.0", "gpus": [
            {"index": 0, "uuid": "GPU-1", "name": "NVIDIA X", "memory": 85899345920, "part_of": null},
            {"index": 1, "uuid": "MIG-2", "name": "NVIDIA Y MIG", "memory": null, "part_of": 1}]}"#;
        insta::assert_snapshot!(describe(two), @"
          ok        GPUs: 2, driver 580.82, CUDA up to 13.0
                    GPU 0: NVIDIA X, 80 GB of memory, GPU-1
                    GPU 1: NVIDIA Y MIG, a part of GPU 1, MIG-2
        ");
        let none = r#"{"known": false, "missing": "there is no NVIDIA driver", "gpus": []}"#;
        insta::assert_snapshot!(describe(none), @"
          -         GPUs: none
                    there is no NVIDIA driver
        ");
        let hidden =
            r#"{"known": true, "missing": "the device file /dev/x is not there", "gpus": []}"#;
        insta::assert_snapshot!(describe(hidden), @"
          MISSING   GPUs: none that jobs may use
                    the device file /dev/x is not there
        ");
    }

    #[test]
    fn missing_layers_come_with_a_remedy() {
        let mut findings = Findings::now(&PolicyArgument::default(), &Config::default());
        findings.layers =
            vec![DoctorCheck::new("landlock", Err("there is none".to_owned()), "a newer kernel")];
        findings.required_works = false;
        let text = findings.text();
        assert!(text.contains("  MISSING   landlock: there is none\n"), "{text}");
        assert!(text.contains("what to do: a newer kernel\n"), "{text}");
        assert!(text.contains("do not run on this machine"), "{text}");
    }
}
