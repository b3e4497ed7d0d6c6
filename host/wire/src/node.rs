//! What a leader asks of a node, one machine that runs a job, before the job begins, and what the node answers. Plain
//! data: paths, digests, counts and texts. What cannot be told (open files, compiled code, locks, processes) stays with
//! the node. A leader and a node on the same machine exchange these as arguments and results of direct calls.
//!
//! The job's settings do not travel in these words: both sides have them before.

use crate::FromPlanner;
use jiff::Timestamp;
use sandmill_model::{Backend, MiniBatch, Source, TableFormat};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Leader to node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToNode {
    /// Find and check all that the job needs of the machine, but for GPUs. Answered by [`FromNode::Prepared`].
    Prepare(Prepare),
    /// Wait for all objects of stores that come unasked: a plan that is looked at must not have to wait.
    AwaitObjects,
    /// Plan the job in advance, and look at its files. Answered by a series of [`FromNode::Looked`].
    Look(Look),
    /// Take the GPUs that the job may have. Answered by [`FromNode::Gpus`].
    TakeGpus,
    /// Plan the job, to run it. Answered by a series of [`FromNode::Planned`].
    Plan(Plan),
}

/// Node to leader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromNode {
    /// A line for people about what takes time.
    Said(String),
    /// The answer to [`ToNode::Prepare`].
    Prepared(Box<Prepared>),
    /// A part of the answer to [`ToNode::Look`].
    Looked(Looked),
    /// The answer to [`ToNode::TakeGpus`].
    Gpus {
        /// What the user should know of them, one line each.
        notices: Vec<String>,
    },
    /// A part of the answer to [`ToNode::Plan`].
    Planned(FromPlanner),
}

/// What the leader knows of a job before the node has looked at anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepare {
    /// The job directory, without links. It may not exist yet.
    pub job_dir: PathBuf,
    /// The output folder that the job names, without links. It may not exist yet.
    pub output: Option<PathBuf>,
    /// The parent job's folder, without links. It may not exist yet.
    pub parent: Option<PathBuf>,
    /// The job file. It is compared setting by setting, and so does not count among the files of folders that the entry
    /// script sees: else nothing in it could be changed.
    pub job_file: Option<PathBuf>,
    /// Whether the job begins anew for certain: then processes start before they are needed.
    pub begins: bool,
}

/// What a node found for a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
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
    /// What may compute with models; empty for a job that has none.
    pub backends: Vec<PreparedBackend>,
    /// Bytes of memory that one worker may hold.
    pub budget: u64,
    /// The runtime that runs the entry script and its versions, for people; `None` for a component of its own.
    pub runtime: Option<String>,
    /// What the user should know, one line each.
    pub notices: Vec<String>,
}

/// A model that a node looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedModel {
    /// What the entry script loads it by.
    pub name: String,
    /// The name of the ONNX file.
    pub file: String,
    /// The SHA-256 of the ONNX file, in hexadecimal.
    pub sha256: String,
    /// A digest of the files of its folder, or `None` if the ONNX file stands alone.
    pub folder: Option<String>,
}

/// A backend that a node has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedBackend {
    /// Which one.
    pub backend: Backend,
    /// Its version, if it tells one.
    pub version: Option<String>,
    /// Its library, or `None` if it is a part of Sandmill.
    pub library: Option<PathBuf>,
}

/// How the inputs are to be planned, beside what the job's settings say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PlanRequest::again`](crate::PlanRequest::again).
    pub again: Vec<(u32, String)>,
}

/// Asks whether the inputs are what they were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// How they are planned.
    pub plan: Plan,
    /// When the job began: files that were changed later are told.
    pub since: Timestamp,
    /// The longest that nothing may be heard.
    pub patience: Duration,
}

/// What a node saw of the inputs, in the order of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Looked {
    /// How tables are read.
    Tables(Vec<TableFormat>),
    /// The next mini-batches.
    MiniBatches(Vec<LookedAt>),
    /// There are no more.
    Finished,
}

/// A mini-batch whose files were looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookedAt {
    /// Its descriptor.
    pub batch: MiniBatch,
    /// Of its descriptor and its files, as its worker stamps it.
    pub stamp: u64,
    /// When one of its files was changed after [`Look::since`], or `None` if all are older.
    pub changed: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, encode};
    use sandmill_model::{MiniBatchId, Work};
    use serde::de::DeserializeOwned;
    use std::fmt::Debug;

    fn travels<T: Serialize + DeserializeOwned + PartialEq + Debug>(word: &T) {
        let mut frame = Vec::new();
        encode(word, &mut frame).unwrap();
        assert_eq!(decode::<T>(&frame[4..]).unwrap(), *word);
    }

    /// A node on another machine must be told the same as one on this.
    #[test]
    fn all_words_travel_whole() {
        let plan = Plan { again: vec![(1, "bad.csv".to_owned())] };
        let look =
            Look { plan: plan.clone(), since: Timestamp::UNIX_EPOCH, patience: Duration::MAX };
        let prepare = Prepare { parent: Some("/parent".into()), ..Prepare::sample("/jobs/x") };
        for word in [
            ToNode::Prepare(prepare),
            ToNode::AwaitObjects,
            ToNode::Look(look),
            ToNode::TakeGpus,
            ToNode::Plan(plan),
        ] {
            travels(&word);
        }
        let prepared = Prepared {
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
            ..Prepared::sample()
        };
        let batch = MiniBatch::new(MiniBatchId(3), 0, Work::Void);
        let looked = LookedAt { batch, stamp: 9, changed: Some(Timestamp::UNIX_EPOCH) };
        for word in [
            FromNode::Said("compiling".to_owned()),
            FromNode::Prepared(Box::new(prepared)),
            FromNode::Looked(Looked::MiniBatches(vec![looked])),
            FromNode::Looked(Looked::Finished),
            FromNode::Gpus { notices: Vec::new() },
            FromNode::Planned(FromPlanner::Finished),
        ] {
            travels(&word);
        }
    }
}
