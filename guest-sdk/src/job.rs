//! The job and the context of a mini-batch, as the entry script sees them.

use std::path::{Path, PathBuf};

/// The job, which `init` receives. If `run` needs the job, keep a clone or some values in the instance.
#[derive(Clone, Debug)]
pub struct Job {
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) agent_name: String,
    pub(crate) node_id: String,
    pub(crate) log_dir: PathBuf,
    pub(crate) output_dir: PathBuf,
    pub(crate) source_dir: Option<PathBuf>,
    pub(crate) gpu_index: Option<u32>,
}

impl Job {
    /// The job file's `arguments`, with placeholders such as `${{side_inputs.x}}` expanded.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// The value of an argument, given as `--weights x` or as `--weights=x`. If the job gives the argument
    /// several times, the last one counts.
    ///
    /// `None` if the job does not give the argument, or gives it without a value. After a space, a text that
    /// starts with `--` is the next argument, not a value. Write such a value as `--weights=--x`.
    ///
    /// ```
    /// use sandmill_guest::test::TestHost;
    ///
    /// let host = TestHost::new().arguments(["--weights", "/models/a.json", "--top=3"]);
    /// assert_eq!(host.job().argument("--weights"), Some("/models/a.json"));
    /// assert_eq!(host.job().argument("--top"), Some("3"));
    /// assert_eq!(host.job().argument("--seed"), None);
    /// ```
    pub fn argument(&self, name: &str) -> Option<&str> {
        self.last_value(name).flatten()
    }

    /// Whether the job gives an argument that needs no value. A later `--fast=false` revokes `--fast`.
    ///
    /// ```
    /// use sandmill_guest::test::TestHost;
    ///
    /// let host = TestHost::new().arguments(["--fast", "--top=3"]);
    /// assert!(host.job().flag("--fast"));
    /// assert!(!host.job().flag("--verbose"));
    /// ```
    pub fn flag(&self, name: &str) -> bool {
        self.last_value(name).is_some_and(|value| value != Some("false"))
    }

    /// The value of the last occurrence of an argument. `Some(None)` if this occurrence has no value, and
    /// `None` if there is no occurrence.
    fn last_value(&self, name: &str) -> Option<Option<&str>> {
        let mut found = None;
        for (index, argument) in self.arguments.iter().enumerate() {
            if argument == name {
                let next = self.arguments.get(index + 1);
                found = Some(next.map(String::as_str).filter(|next| !next.starts_with("--")));
            } else if let Some(rest) = argument.strip_prefix(name)
                && let Some(value) = rest.strip_prefix('=')
            {
                found = Some(Some(value));
            }
        }
        found
    }

    /// A variable of the job file's `environment_variables`. It is also in `std::env`, but only here can a
    /// test set it.
    ///
    /// ```
    /// use sandmill_guest::test::TestHost;
    ///
    /// let host = TestHost::new().env("MODE", "fast");
    /// assert_eq!(host.job().env("MODE"), Some("fast"));
    /// assert_eq!(host.job().env("HOME"), None);
    /// ```
    pub fn env(&self, name: &str) -> Option<&str> {
        // The last one counts.
        let mut found = self.environment.iter().rev().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// The name of this worker: `process000`, `process001`, ... A worker that replaces another has a new
    /// name.
    pub fn agent_name(&self) -> &str {
        &self.agent_name
    }

    /// The id of the node on which this worker runs: "0" on a single machine.
    pub fn node_id(&self) -> &str {
        &self.node_id
    }

    /// A folder for the entry script's own log files. All workers of a node share it, so put
    /// [`Job::agent_name`] into file names.
    pub fn log_dir(&self) -> &Path {
        &self.log_dir
    }

    /// The folder for result files. A file that `run` writes appears in the job's output only if its
    /// mini-batch succeeds. A file that `init` or `shutdown` writes appears when the job completes.
    pub fn output_dir(&self) -> &Path {
        &self.output_dir
    }

    /// The job's source folder, which is read-only. `None` if the job has none.
    pub fn source_dir(&self) -> Option<&Path> {
        self.source_dir.as_deref()
    }

    /// The index of the GPU that is leased to this worker. `None` if it has no GPU.
    pub fn gpu_index(&self) -> Option<u32> {
        self.gpu_index
    }
}

/// Where a mini-batch comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MiniBatchContext {
    /// The number of the mini-batch within the job, counted from 0. The same in every attempt.
    pub id: u64,
    /// The name of the input that the mini-batch comes from; empty for void mini-batches.
    pub dataset: String,
    /// 1 for the first attempt at this mini-batch.
    pub attempt: u32,
    /// The partition keys and their values, in the order of the job file; empty without keys.
    pub partition_key_value: Vec<(String, String)>,
}

impl Default for MiniBatchContext {
    /// The first attempt at mini-batch 0 of an input named `input`.
    fn default() -> Self {
        MiniBatchContext {
            id: 0,
            dataset: "input".to_owned(),
            attempt: 1,
            partition_key_value: Vec::new(),
        }
    }
}

impl MiniBatchContext {
    /// The value of a partition key. `None` if the job does not have this key.
    ///
    /// ```
    /// use sandmill_guest::MiniBatchContext;
    ///
    /// let partition_key_value = vec![("user".to_owned(), "ann".to_owned())];
    /// let context = MiniBatchContext { partition_key_value, ..MiniBatchContext::default() };
    /// assert_eq!(context.partition_value("user"), Some("ann"));
    /// assert_eq!(context.partition_value("genre"), None);
    /// ```
    pub fn partition_value(&self, key: &str) -> Option<&str> {
        self.partition_key_value.iter().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }
}
