//! One sample value of each message that tests build. A test sets only the fields that matter to it:
//! `WorkerSetup { gpu, ..WorkerSetup::sample(job_dir) }`.

use super::node::{ListedInputs, NodeFindings, PrepareRequest, ScriptFiles};
use super::store::{FetchRequest, StoreConfig, StoreTask};
use super::{FromPlanner, PROTOCOL_VERSION, WorkerSetup};
use sandmill_model::{
    InferenceSettings, Limits, OsSandbox, OutputFormat, StoreKind, WorkerId, WorkerSettings,
};
use std::path::PathBuf;

impl WorkerSetup {
    /// The setup of the only worker of a job without inputs and models.
    pub fn sample(job_dir: impl Into<PathBuf>) -> Self {
        let job_dir = job_dir.into();
        Self {
            protocol: PROTOCOL_VERSION,
            worker: WorkerId(0),
            workers: 1,
            spill: job_dir.join("spill"),
            job_dir,
            arguments: Vec::new(),
            environment: Vec::new(),
            mounts: Vec::new(),
            source_dir: None,
            sources: Vec::new(),
            tables: Vec::new(),
            settings: WorkerSettings::default(),
            limits: Limits::default(),
            output_format: OutputFormat::default(),
            keeps_rows: false,
            temporary: false,
            gpu: None,
            models: Vec::new(),
            inference: InferenceSettings::default(),
        }
    }
}

impl FromPlanner {
    /// A message that a file of the first input is opened next.
    pub fn opening(file: impl Into<String>, waits: bool) -> Self {
        Self::Opening { source: 0, file: file.into(), waits, next: Vec::new() }
    }
}

impl PrepareRequest {
    /// A new job with the output in its directory.
    pub fn sample(job_dir: impl Into<PathBuf>) -> Self {
        Self {
            job_dir: job_dir.into(),
            is_own_dir: false,
            output: None,
            parent: None,
            job_store: None,
            job_file: None,
            begins: true,
            listed: None,
            has_remote_workers: false,
        }
    }
}

impl NodeFindings {
    /// The answer for a job without inputs, other folders and models.
    pub fn sample() -> Self {
        Self {
            component: String::new(),
            sources: Vec::new(),
            side_inputs: Vec::new(),
            source_directory: None,
            models: Vec::new(),
            backends: Vec::new(),
            budget: 0,
            runtime: None,
            notices: Vec::new(),
            listed: ListedInputs::default(),
            script: ScriptFiles::default(),
        }
    }
}

impl StoreConfig {
    /// A bucket that needs no credentials.
    pub fn sample() -> Self {
        Self {
            kind: StoreKind::S3,
            container: "b".to_owned(),
            options: Vec::new(),
            credentials: String::new(),
        }
    }
}

impl FetchRequest {
    /// A request to serve the bucket, without a wall.
    pub fn sample(folder: impl Into<PathBuf>) -> Self {
        Self {
            protocol: PROTOCOL_VERSION,
            os_sandbox: OsSandbox::Off,
            store: StoreConfig::sample(),
            prefix: String::new(),
            task: StoreTask::Serve,
            shown: "s3://b".to_owned(),
            folder: folder.into(),
        }
    }
}
