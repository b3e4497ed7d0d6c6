//! The messages between a leader and a node before the job begins. A node is one machine that runs a job.
//! Messages are plain data: paths, digests, counts and texts. Things that cannot be sent (open files,
//! compiled code, locks, processes) stay with the node. If leader and node are on the same machine, they pass
//! these messages as arguments and results of direct calls.
//!
//! The job's settings are not part of these messages: both sides already have them.

use crate::{FromPlanner, PlanPosition};
use jiff::Timestamp;
use sandmill_model::{Backend, MiniBatch, Source, TableFormat};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Leader to node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToNode {
    /// Find and check everything that the job needs on the machine, except GPUs. Answered by
    /// [`FromNode::Prepared`].
    Prepare(PrepareRequest),
    /// Wait until all objects that are fetched in advance have arrived, so that [`InspectInputs`](Self::InspectInputs) need not
    /// wait for them.
    AwaitObjects,
    /// Plan the job and inspect its files, to find out whether the inputs have changed. Answered by a series
    /// of [`FromNode::Inspected`].
    InspectInputs(InspectRequest),
    /// Lease the GPUs that the job may have. Answered by [`FromNode::Gpus`].
    TakeGpus,
    /// Plan the job in order to run it. Answered by a series of [`FromNode::Planned`].
    Plan(PlanOptions),
}

/// Node to leader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromNode {
    /// A line for the user about something that takes time.
    Said(String),
    /// The answer to [`ToNode::Prepare`].
    Prepared(Box<NodeFindings>),
    /// A part of the answer to [`ToNode::InspectInputs`].
    Inspected(InspectReport),
    /// The answer to [`ToNode::TakeGpus`].
    Gpus {
        /// What the user should know about the GPUs, one line each.
        notices: Vec<String>,
    },
    /// A part of the answer to [`ToNode::Plan`].
    Planned(FromPlanner),
}

/// What the leader knows about a job before the node has inspected anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrepareRequest {
    /// The job directory, with symbolic links resolved. It may not exist yet.
    pub job_dir: PathBuf,
    /// Whether the operator of the machine has chosen the job directory. Then the policy need not allow it.
    pub is_own_dir: bool,
    /// The output folder that the job names, with symbolic links resolved. It may not exist yet.
    pub output: Option<PathBuf>,
    /// The folder of commit logs, with symbolic links resolved.
    pub job_store: Option<PathBuf>,
    /// The parent job's folder, with symbolic links resolved. It may not exist yet.
    pub parent: Option<PathBuf>,
    /// The job file. It is excluded from the digests of folders that the entry script sees, because it is
    /// compared setting by setting. Otherwise any change to it would count as a changed folder.
    pub job_file: Option<PathBuf>,
    /// Whether the job certainly starts from the beginning, and is not resumed. If so, the node
    /// starts processes before they are needed.
    pub begins: bool,
    /// What the leader's machine has found in stores. `None` if this node lists the stores itself.
    pub listed: Option<ListedInputs>,
    /// Whether other machines run the workers. They need the entry script, and may have copies of the inputs.
    pub has_remote_workers: bool,
}

/// What one machine has found when it listed the inputs. Other machines need not list those that are in stores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedInputs {
    /// For each path of an input that is in a store, in order: whether it is that of an object, and not of a folder or a
    /// glob.
    pub are_objects: Vec<bool>,
    /// For each folder of a store, in order: the name of an object in it. Empty if no object can be fetched.
    pub samples: Vec<String>,
    /// A digest of the inputs' sources, without the folders on the machine.
    pub sources: String,
    /// The inputs that are on the machine, if other machines must have the same.
    pub local: Vec<LocalInput>,
}

/// An input that is on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalInput {
    /// Its name.
    pub name: String,
    /// A digest of the names, lengths and times of its files.
    pub files: String,
}

/// What a node found for a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFindings {
    /// The SHA-256 of the entry script's component, in hexadecimal.
    pub component: String,
    /// The inputs' folders.
    pub sources: Vec<Source>,
    /// A digest of the files of each side input, in the order of the job file.
    pub side_inputs: Vec<String>,
    /// A digest of the files of the source directory, if the job has one.
    pub source_directory: Option<String>,
    /// The job's models, in the order of the job file.
    pub models: Vec<PreparedModel>,
    /// The backends that may compute with models; empty if the job has no models.
    pub backends: Vec<PreparedBackend>,
    /// Bytes of memory that one worker may use.
    pub budget: u64,
    /// The runtime that runs the entry script, with its versions, as text for the user. `None` if the entry
    /// script is itself a component.
    pub runtime: Option<String>,
    /// What the user should know, one line each.
    pub notices: Vec<String>,
    /// What was found in stores.
    pub listed: ListedInputs,
    /// The files of the entry script. Empty if no other machine needs them.
    pub script: ScriptFiles,
}

/// The files of an entry script on this machine, which other machines need to run it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptFiles {
    /// The component. `None` if a runtime loads the script: each machine has the runtime.
    pub component: Option<ComponentFile>,
    /// The source files that the script sees. `None` if it sees none, or if other machines must have the folder at
    /// the same path, because it is too large or has links.
    pub source: Option<SourceFiles>,
}

/// The file of a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentFile {
    /// Where the file is, without links.
    pub path: PathBuf,
    /// The name under which the entry script runs. It sees the name.
    pub name: String,
}

/// Source files that an entry script sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFiles {
    /// Their folder, without links.
    pub folder: PathBuf,
    /// Their paths in it, sorted. No part of a path is a link.
    pub files: Vec<PathBuf>,
    /// The path of the script that a runtime loads. `None` if the entry script is a component.
    pub script: Option<PathBuf>,
    /// Whether the job names the folder as its source folder. Otherwise they are the files beside the script.
    pub is_folder: bool,
}

/// A model that a node inspected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedModel {
    /// The name under which the entry script loads it.
    pub name: String,
    /// The name of the ONNX file.
    pub file: String,
    /// The SHA-256 of the ONNX file, in hexadecimal.
    pub sha256: String,
    /// A digest of the files of the model's folder. `None` if the job names an ONNX file and not a folder.
    pub folder: Option<String>,
}

/// A backend that a node has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedBackend {
    /// Which one.
    pub backend: Backend,
    /// Its version, if it reports one.
    pub version: Option<String>,
    /// Its library; `None` if it is built into Sandmill.
    pub library: Option<PathBuf>,
}

/// How to plan the inputs, in addition to the job's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanOptions {
    /// [`PlanRequest::retried_files`](crate::PlanRequest::retried_files).
    pub retried_files: Vec<(u32, String)>,
    /// [`PlanRequest::reports_positions`](crate::PlanRequest::reports_positions).
    pub reports_positions: bool,
    /// [`PlanRequest::continue_from`](crate::PlanRequest::continue_from).
    pub continue_from: Option<PlanPosition>,
    /// [`PlanRequest::stores_spill`](crate::PlanRequest::stores_spill).
    pub stores_spill: bool,
}

/// Asks whether the inputs have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectRequest {
    /// How the inputs are planned.
    pub plan: PlanOptions,
    /// When the job began. Files that were changed later are reported.
    pub since: Timestamp,
    /// How long the node may take between two messages of its answer.
    pub patience: Duration,
}

/// What a node found about the inputs, in the order of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InspectReport {
    /// How tables are read.
    Tables(Vec<TableFormat>),
    /// The next mini-batches.
    MiniBatches(Vec<InspectedMiniBatch>),
    /// All mini-batches were sent.
    Finished,
    /// [`FromPlanner::Continues`].
    Continues,
    /// [`FromPlanner::CannotContinue`]. This report is the last one.
    CannotContinue,
}

/// A mini-batch whose files were inspected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectedMiniBatch {
    /// Its descriptor.
    pub batch: MiniBatch,
    /// The stamp of its descriptor and its files, as the worker computes it.
    pub stamp: u64,
    /// The time at which one of its files was changed, if that is after [`InspectRequest::since`]. `None` if
    /// all its files are older.
    pub changed: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, encode};
    use sandmill_model::{MiniBatchId, MiniBatchWork};
    use serde::de::DeserializeOwned;
    use std::fmt::Debug;

    fn assert_survives_encoding<T: Serialize + DeserializeOwned + PartialEq + Debug>(message: &T) {
        let mut frame = Vec::new();
        encode(message, &mut frame).unwrap();
        assert_eq!(decode::<T>(&frame[4..]).unwrap(), *message);
    }

    /// A node on another machine must receive the same messages as a node on this machine.
    #[test]
    fn all_messages_survive_encoding() {
        let plan = PlanOptions {
            retried_files: vec![(1, "bad.csv".to_owned())],
            ..PlanOptions::default()
        };
        let look = InspectRequest {
            plan: plan.clone(),
            since: Timestamp::UNIX_EPOCH,
            patience: Duration::MAX,
        };
        let prepare =
            PrepareRequest { parent: Some("/parent".into()), ..PrepareRequest::sample("/jobs/x") };
        for message in [
            ToNode::Prepare(prepare),
            ToNode::AwaitObjects,
            ToNode::InspectInputs(look),
            ToNode::TakeGpus,
            ToNode::Plan(plan),
        ] {
            assert_survives_encoding(&message);
        }
        let prepared = NodeFindings {
            component: "ab".to_owned(),
            sources: vec![Source::new("texts", "/data".into())],
            side_inputs: vec!["cd".to_owned()],
            models: vec![PreparedModel {
                name: "m".to_owned(),
                file: "m.onnx".to_owned(),
                sha256: "ef".to_owned(),
                folder: None,
            }],
            backends: vec![PreparedBackend {
                backend: Backend::OnnxRuntime,
                version: Some("1.23.0".to_owned()),
                library: Some("/lib/libonnxruntime.so".into()),
            }],
            budget: 7,
            runtime: Some("light".to_owned()),
            notices: vec!["a notice".to_owned()],
            ..NodeFindings::sample()
        };
        let batch = MiniBatch::new(MiniBatchId(3), 0, MiniBatchWork::Void);
        let looked = InspectedMiniBatch { batch, stamp: 9, changed: Some(Timestamp::UNIX_EPOCH) };
        for message in [
            FromNode::Said("compiling".to_owned()),
            FromNode::Prepared(Box::new(prepared)),
            FromNode::Inspected(InspectReport::MiniBatches(vec![looked])),
            FromNode::Inspected(InspectReport::Finished),
            FromNode::Gpus { notices: Vec::new() },
            FromNode::Planned(FromPlanner::Finished),
        ] {
            assert_survives_encoding(&message);
        }
    }
}
