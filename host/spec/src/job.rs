//! A job as the rest of the program sees it: checked, resolved, with defaults filled in.

use super::requirements::Requirement;
use crate::given::{GivenLimits, GivenSettings};
use crate::model::{
    Address, Backend, ByteSize, DeviceChoice, GUEST_MODELS, InferenceSettings, Input, InputKind,
    JobLimits, JobSettings, Latest, Limits, Mount, OutputFormat, PythonRuntime, ScriptLanguage,
    WorkerSettings,
};
use std::path::PathBuf;
use std::time::Duration;

/// The job that this one is a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its folder. Absolute.
    pub folder: PathBuf,
    /// Whether it gets a copy of this job's overview, progress and logs (prs-semantics A6).
    pub copy_logs: bool,
    /// Whether it gets this job's metrics too (A8).
    pub push_metrics: bool,
}

/// A checked job. Paths are absolute.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// The job's name.
    pub name: String,
    /// The component, a core module, or a guest crate's folder.
    pub entry_script: PathBuf,
    /// The SHA-256 that the component must have, in hex.
    pub entry_script_digest: Option<String>,
    /// Shown to the guest read-only at `/source`.
    pub source_directory: Option<PathBuf>,
    /// The script that a runtime loads, where the entry script is one.
    pub script: Option<LoadedScript>,
    /// What is cut into mini-batches. Empty only for [`InputKind::Void`].
    pub inputs: Vec<Input>,
    /// What the inputs are made of, and how they are cut.
    pub input_kind: InputKind,
    /// Shown to the guest read-only.
    pub side_inputs: Vec<Mount>,
    /// What the entry script may compute with. Each is a read-only folder for it, too.
    pub models: Vec<ModelSpec>,
    /// Those side inputs and models that lie in stores: until they are fetched, their paths are addresses.
    pub stored: Vec<Stored>,
    /// What inference may use.
    pub inference: InferenceSettings,
    /// The folder for results; none means the job directory's own.
    pub output: Option<PathBuf>,
    /// The place in a store that the output folder's files are put into when the job is completed.
    pub upload: Option<Address>,
    /// The program's arguments, references replaced by guest paths.
    pub arguments: Vec<String>,
    /// How many of them, from the first, the job file gives; the rest are settings that are passed on
    /// (prs-semantics E11), and change as these may.
    pub own_arguments: usize,
    /// The guest's environment.
    pub environment_variables: Vec<(String, String)>,
    /// Number of workers.
    pub process_count: u32,
    /// The output file's name.
    pub append_row_file_name: String,
    /// What earlier versions called that file, if they called it otherwise: their jobs keep the name.
    pub earlier_file_name: Option<String>,
    /// The longest that nothing may move (A2).
    pub progress_update_timeout: Duration,
    /// GPUs that may be leased to workers.
    pub gpus: u32,
    /// By which keys mini-batches are made; none for by size (C8).
    pub partition_keys: Vec<String>,
    /// How rows are written.
    pub output_format: OutputFormat,
    /// Where copies of logs and metrics go (A6, A8); none for nowhere.
    pub parent: Option<Parent>,
    /// What the leader and the node go by, as the job file says it.
    pub settings: JobSettings,
    /// What each worker goes by, too.
    pub worker: WorkerSettings,
    /// The budget of each instance.
    pub limits: Limits,
    /// What the leader spends on it.
    pub job_limits: JobLimits,
    /// What the latest versions of registered datasets and models were, where the job names no version.
    pub latest: Vec<Latest>,
    /// What the user should know about how the job file was read, one line each.
    pub notices: Vec<String>,
    /// What was made of settings of a file of Azure's that mean here what they mean there, one line each.
    pub conversions: Vec<String>,
}

/// A script that a runtime loads, as the sandbox sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedScript {
    /// Its path in the sandbox, as `/source/score.py`.
    pub guest: String,
    /// What it is written in.
    pub language: ScriptLanguage,
    /// The runtime of Python that is asked for.
    pub runtime: PythonRuntime,
    /// The packages that its requirements file names in one version, with the file's name for people.
    pub requirements: Option<(String, Vec<Requirement>)>,
    /// Whether each worker writes a profile of Python's own.
    pub profile: bool,
}

/// A model that a job names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSpec {
    /// What the entry script loads it by.
    pub name: String,
    /// The ONNX file. Absolute.
    pub file: PathBuf,
    /// The folder that belongs to the model, where there is one: it holds the file and is shown whole.
    /// Absolute.
    pub folder: Option<PathBuf>,
    /// Bytes of the ONNX file.
    pub bytes: u64,
    /// The SHA-256 that the ONNX file must have, in hexadecimal.
    pub digest: Option<String>,
    /// Where the job file says that, for people: `job.yaml:12`; none where nothing does.
    pub digest_at: Option<String>,
    /// What it was when it was registered, if the job names it so.
    pub registered: Option<RegisteredModel>,
    /// What runs it.
    pub backend: Backend,
    /// Where it is to run.
    pub device: DeviceChoice,
    /// Whether it may run on the CPU where there is no GPU for it.
    pub fallback: bool,
}

/// What a model was when it was registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredModel {
    /// `NAME@VERSION`.
    pub title: String,
    /// The SHA-256 over its folder, in hexadecimal; none if it is a file alone.
    pub folder_digest: Option<String>,
}

impl ModelSpec {
    /// The folder where the entry script sees it.
    pub fn guest(&self) -> String {
        format!("{GUEST_MODELS}/{}", self.name)
    }

    /// What is wrong, in words, with an ONNX file of so many bytes under this limit.
    pub fn exceeds(&self, bytes: u64, limit: ByteSize) -> Option<String> {
        (bytes > limit.0).then(|| {
            let more = if bytes > self.bytes { ", with the weights that it names," } else { "" };
            format!(
                "{}{more} has {}, more than limits.models ({limit}) lets a worker load; write \
                 limits.models: {} MB, or more",
                self.file.display(),
                ByteSize(bytes),
                bytes.div_ceil(1 << 20)
            )
        })
    }
}

/// A side input or a model that lies in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The key that names it.
    pub key: String,
    /// Which one it is.
    pub kind: StoredKind,
    /// Where it lies.
    pub address: Address,
    /// The version of a model that is meant, of a folder with several.
    pub version: Option<u64>,
}

/// One of a job's side inputs or models, by its place among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredKind {
    /// A side input.
    SideInput(usize),
    /// A model.
    Model(usize),
}

impl JobSpec {
    /// Of the settings that stand in the tables of [`model`](crate::model), those that decide rows: their keys, and their
    /// values as JSON.
    pub fn deciding(&self) -> Vec<(&'static str, String)> {
        let mut deciding = GivenSettings::deciding(&self.settings, &self.worker);
        deciding.extend(GivenLimits::deciding(&self.job_limits, &self.limits));
        deciding
    }

    /// The places in stores that the job names, each with the key that does.
    pub fn addresses(&self) -> Vec<(String, Address)> {
        let key = |input: &Input| format!("inputs.{}.path", input.name);
        let inputs = self.inputs.iter();
        let inputs = inputs.flat_map(|input| input.addresses().map(move |at| (key(input), at)));
        let stored = self.stored.iter().map(|stored| (stored.key.clone(), stored.address.clone()));
        let upload = self.upload.iter().map(|at| ("output".to_owned(), at.clone()));
        inputs.chain(stored).chain(upload).collect()
    }

    /// The place in a store that a side input or model is fetched from, if it is.
    pub fn stored_at(&self, what: StoredKind) -> Option<&Address> {
        let stored = self.stored.iter().find(|stored| stored.kind == what);
        stored.map(|stored| &stored.address)
    }
}
