//! What an entry script is told about its job and its mini-batch.

use std::path::{Path, PathBuf};

/// What `init` is told. Keep what `run` needs in the instance, or the whole: it is `Clone`.
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
    /// The job file's `arguments`, with `${{side_inputs.x}}` and the like expanded.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// The value of an argument: the next one for `--weights x`, the rest of it for `--weights=x`.
    /// The last one counts. None where it is not given or has no value: a next one that starts with
    /// `--` is no value, but `--weights=--x` gives one that does.
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
        self.last(name).flatten()
    }

    /// Whether an argument is given, for one that needs no value. `--fast=false` takes a `--fast`
    /// before it back.
    ///
    /// ```
    /// use sandmill_guest::test::TestHost;
    ///
    /// let host = TestHost::new().arguments(["--fast", "--top=3"]);
    /// assert!(host.job().flag("--fast"));
    /// assert!(!host.job().flag("--verbose"));
    /// ```
    pub fn flag(&self, name: &str) -> bool {
        self.last(name).is_some_and(|value| value != Some("false"))
    }

    /// The last time that an argument is given, with its value if it has one.
    fn last(&self, name: &str) -> Option<Option<&str>> {
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

    /// One of the job file's `environment_variables`. The same as `std::env::var`, but a test can
    /// set it.
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

    /// The name of this worker: `process000`, `process001`, ... A replacement gets a new name.
    pub fn agent_name(&self) -> &str {
        &self.agent_name
    }

    /// The node this worker runs on: "0" on a single machine.
    pub fn node_id(&self) -> &str {
        &self.node_id
    }

    /// A folder for the entry script's own log files. All workers of a node share it: put
    /// [`Job::agent_name`] into file names.
    pub fn log_dir(&self) -> &Path {
        &self.log_dir
    }

    /// The folder for result files. A file appears in the job's output when the mini-batch that
    /// wrote it succeeded, and not at all otherwise; one of `init` or `shutdown`, when the job
    /// completes.
    pub fn output_dir(&self) -> &Path {
        &self.output_dir
    }

    /// The job's source folder, read-only; none where the job names none.
    pub fn source_dir(&self) -> Option<&Path> {
        self.source_dir.as_deref()
    }

    /// The index of the GPU leased to this worker; none where it has none.
    pub fn gpu_index(&self) -> Option<u32> {
        self.gpu_index
    }
}

/// Where a mini-batch comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MiniBatchContext {
    /// Counts from 0 within the job; the same in every attempt.
    pub id: u64,
    /// The name of the input that the mini-batch was cut from; empty for void mini-batches.
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
    /// The value of a partition key, if the job has that key.
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
