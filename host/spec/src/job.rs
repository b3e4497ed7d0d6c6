//! The checked job that the rest of the program uses. Its paths are resolved, and defaults are filled in.

use super::fetched_script::FetchedScript;
use super::job_store_place::JobStorePlace;
use super::requirements::Requirement;
use crate::given_settings::{GivenLimits, GivenSettings};
use crate::model::{
    Address, Backend, ByteSize, DeviceChoice, GUEST_MODELS, InferenceSettings, InputKind, JobInput,
    JobLimits, JobSettings, JobText, Latest, Limits, Mount, OutputFormat, PythonRuntime,
    ScriptLanguage, WorkerSettings,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The job that this one is a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its folder. Absolute.
    pub folder: PathBuf,
    /// Whether the folder gets a copy of this job's overview, progress and logs
    /// (docs/parallel-run-step.md A6).
    pub copy_logs: bool,
    /// Whether the folder also gets this job's metrics (A8).
    pub push_metrics: bool,
}

/// A checked job. Paths are absolute.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// The job's name.
    pub name: String,
    /// A component, a core module, or the folder of a guest crate.
    pub entry_script: PathBuf,
    /// The SHA-256 that the component must have, in hex.
    pub entry_script_digest: Option<String>,
    /// The folder that the guest sees at `/source`, read-only.
    pub source_directory: Option<PathBuf>,
    /// The script that a runtime loads. `None` if the entry script is a component of its own.
    pub script: Option<LoadedScript>,
    /// The data that is cut into mini-batches. Empty only for [`InputKind::Void`].
    pub inputs: Vec<JobInput>,
    /// The kind of the inputs, and how they are cut.
    pub input_kind: InputKind,
    /// The folders and files that the guest sees, read-only.
    pub side_inputs: Vec<Mount>,
    /// The names of the side inputs, in the same order.
    pub side_input_names: Vec<String>,
    /// The models that the entry script may run. The script also sees each model as a read-only folder.
    pub models: Vec<ModelSpec>,
    /// The side inputs and models that are in stores. Until they are fetched, their paths are addresses.
    pub stored: Vec<StoredMount>,
    /// The limits and settings of inference.
    pub inference: InferenceSettings,
    /// The folder for results. `None` means the folder in the job directory.
    pub output: Option<PathBuf>,
    /// The address in a store to which the output folder's files are uploaded when the job has completed.
    /// `None` if they are not uploaded.
    pub upload: Option<Address>,
    /// The program's arguments, with references replaced by guest paths.
    pub arguments: Vec<String>,
    /// How many of the arguments come from the job file. These are the first arguments. The rest are
    /// settings that Sandmill passes on (docs/parallel-run-step.md E11). They change when those
    /// settings change.
    pub own_arguments: usize,
    /// The guest's environment.
    pub environment_variables: Vec<(String, String)>,
    /// Number of workers.
    pub process_count: u32,
    /// The number of machines that the job runs on. 1 without a broker.
    pub node_count: u32,
    /// The output file's name.
    pub append_row_file_name: String,
    /// The name that earlier versions of Sandmill gave the output file, if it differs. A job that an earlier
    /// version started keeps this name.
    pub earlier_file_name: Option<String>,
    /// The longest time without any progress (rule A2).
    pub progress_update_timeout: Duration,
    /// The number of GPUs that may be leased to workers.
    pub gpus: u32,
    /// The keys by which the input is cut into mini-batches (rule C8). Empty if it is cut by size.
    pub partition_keys: Vec<String>,
    /// How rows are written.
    pub output_format: OutputFormat,
    /// Where the commit logs of jobs are. `None` if the job has no commit log.
    pub job_store: Option<JobStorePlace>,
    /// Where copies of logs and metrics go (A6, A8). `None` if there are no copies.
    pub parent: Option<Parent>,
    /// Settings for the leader and the node, as the job file gives them.
    pub settings: JobSettings,
    /// Settings that each worker needs, too.
    pub worker: WorkerSettings,
    /// The limits of each instance.
    pub limits: Limits,
    /// The leader's limits for the job.
    pub job_limits: JobLimits,
    /// The SHA-256 of the job file's text, in hexadecimal. Empty if no file was read.
    pub job_file_sha256: String,
    /// The texts from which the job was read.
    pub text: JobText,
    /// Where the entry script is, if it was fetched from the job's store.
    pub fetched: FetchedScript,
    /// For registered datasets and models that the job names without a version: the latest version of each.
    pub latest: Vec<Latest>,
    /// How the job file names its inputs, side inputs and models: their keys, and a text that differs if they change.
    pub named_data: BTreeMap<String, String>,
    /// What the user should know about how the job file was read, one line each.
    pub notices: Vec<String>,
    /// How settings of an Azure file were converted, if they mean the same here as in Azure, one line each.
    pub conversions: Vec<String>,
}

/// A script that a runtime loads, as seen in the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedScript {
    /// Its path in the sandbox, such as `/source/score.py`.
    pub guest: String,
    /// Its language.
    pub language: ScriptLanguage,
    /// The Python runtime that the job requests.
    pub runtime: PythonRuntime,
    /// The packages that its requirements file pins to one version, with the file's name for messages.
    pub requirements: Option<(String, Vec<Requirement>)>,
    /// Whether each worker writes a Python profile.
    pub profile: bool,
}

/// A model that a job names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSpec {
    /// The name by which the entry script loads the model.
    pub name: String,
    /// The ONNX file. Absolute.
    pub file: PathBuf,
    /// The folder that belongs to the model, if it has one. The folder contains the ONNX file, and the
    /// entry script sees the whole folder. Absolute.
    pub folder: Option<PathBuf>,
    /// The size of the ONNX file in bytes.
    pub bytes: u64,
    /// The SHA-256 that the ONNX file must have, in hexadecimal.
    pub digest: Option<String>,
    /// Where the job file gives the digest, for messages: `job.yaml:12`. `None` if it does not give a digest.
    pub digest_at: Option<String>,
    /// The model as it was registered, if the job refers to a registered model.
    pub registered: Option<RegisteredModel>,
    /// The backend that runs the model.
    pub backend: Backend,
    /// The device that the model should run on.
    pub device: DeviceChoice,
    /// Whether the model may run on the CPU if no GPU is free.
    pub fallback: bool,
}

/// A model as it was registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredModel {
    /// `NAME@VERSION`.
    pub title: String,
    /// The SHA-256 over the model's folder, in hexadecimal. `None` if the model is a single file.
    pub folder_digest: Option<String>,
}

impl ModelSpec {
    /// The path of the model's folder for the entry script.
    pub fn guest(&self) -> String {
        format!("{GUEST_MODELS}/{}", self.name)
    }

    /// The error message for an ONNX file that is larger than the limit.
    pub fn exceeds(&self, bytes: u64, limit: ByteSize) -> Option<String> {
        (bytes > limit.0).then(|| {
            let with_weights = if bytes > self.bytes { ", with the weights that it names," } else { "" };
            format!(
                "{}{with_weights} has {}, more than limits.models ({limit}) lets a worker load; write \
                 limits.models: {} MB, or more",
                self.file.display(),
                ByteSize(bytes),
                bytes.div_ceil(1 << 20)
            )
        })
    }
}

/// A side input or a model that is in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMount {
    /// The key that names it.
    pub key: String,
    /// Which of the job's side inputs or models it is.
    pub kind: StoredKind,
    /// Its address in the store.
    pub address: Address,
    /// The chosen version, for a model in a folder with several versions.
    pub version: Option<u64>,
    /// The file below the address that is meant. `None` if all of the address is.
    pub file: Option<String>,
}

/// One of a job's side inputs or models, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredKind {
    /// A side input.
    SideInput(usize),
    /// A model.
    Model(usize),
}

impl JobSpec {
    /// The settings of the tables in [`model`](crate::model) that affect the resulting rows: their keys, and
    /// their values as JSON.
    pub fn deciding(&self) -> Vec<(&'static str, String)> {
        let mut deciding = GivenSettings::deciding(&self.settings, &self.worker);
        deciding.extend(GivenLimits::deciding(&self.job_limits, &self.limits));
        deciding
    }

    /// The addresses in stores that the job names, each with its key.
    pub fn addresses(&self) -> Vec<(String, Address)> {
        let key = |input: &JobInput| format!("inputs.{}.path", input.name);
        let inputs = self.inputs.iter();
        let inputs =
            inputs.flat_map(|input| input.addresses().map(move |address| (key(input), address)));
        let stored = self.stored.iter().map(|stored| (stored.key.clone(), stored.address.clone()));
        let upload = self.upload.iter().map(|address| ("output".to_owned(), address.clone()));
        let job_store = self.job_store.iter().filter_map(JobStorePlace::address);
        let job_store = job_store.map(|address| ("job_store".to_owned(), address.clone()));
        inputs.chain(stored).chain(upload).chain(job_store).collect()
    }

    /// The address from which a side input or model is fetched. `None` if it is not in a store.
    pub fn stored_at(&self, wanted: StoredKind) -> Option<&Address> {
        let stored = self.stored.iter().find(|stored| stored.kind == wanted);
        stored.map(|stored| &stored.address)
    }
}
