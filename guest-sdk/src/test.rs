//! Runs an entry script in a native test, without a host.
//!
//! ```
//! use sandmill_guest::test::TestHost;
//! use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
//! use std::path::PathBuf;
//!
//! struct Names {
//!     greeting: String,
//! }
//!
//! impl EntryScript for Names {
//!     type Input = Files;
//!
//!     fn init(job: &Job) -> Result<Self> {
//!         let greeting = job.argument("--greeting").ok_or("--greeting is missing")?;
//!         Ok(Names { greeting: greeting.to_owned() })
//!     }
//!
//!     fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
//!         sandmill_guest::log::info!("{} files", files.len());
//!         Ok(Results::rows(files.iter().map(|f| format!("{} {}", self.greeting, f.display()))))
//!     }
//! }
//!
//! let mut script = TestHost::new().arguments(["--greeting", "hello"]).init::<Names>()?;
//! assert_eq!(script.run_files(&["a", "b"])?, Results::rows(["hello a", "hello b"]));
//! assert_eq!(script.logs()[0].message, "2 files");
//!
//! let error = TestHost::new().init::<Names>().err().unwrap();
//! assert_eq!(error.to_string(), "--greeting is missing");
//! # Ok::<(), sandmill_guest::Error>(())
//! ```
//!
//! Results that a job would refuse, such as a row with a line break, are errors in a test, too.

mod checked;

use crate::captured;
pub use crate::captured::LogLine;
use crate::input::Raw;
use crate::nn::functions::TestModels;
use crate::nn::{Description, NnError, Tensor, Tensors};
use crate::{EntryScript, Error, Files, Input, Job, MiniBatchContext, Result, Results, Void};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Replaces the host in a test. Its methods set what the entry script sees.
///
/// The log and output folders are new folders below the system's folder for temporary files, and are deleted
/// when the test ends. A test may set its own folders instead.
#[derive(Debug)]
pub struct TestHost {
    job: Job,
    partition_key_value: Vec<(String, String)>,
    strict_cardinality: bool,
    models: TestModels,
    scratch: Arc<TestFolder>,
}

impl Default for TestHost {
    fn default() -> Self {
        Self::new()
    }
}

impl TestHost {
    /// A worker named `process000` on node "0", without arguments.
    pub fn new() -> Self {
        let scratch = TestFolder::default();
        let job = Job {
            arguments: Vec::new(),
            environment: Vec::new(),
            agent_name: "process000".to_owned(),
            node_id: "0".to_owned(),
            log_dir: scratch.0.join("logs"),
            output_dir: scratch.0.join("output"),
            source_dir: None,
            gpu_index: None,
        };
        let scratch = Arc::new(scratch);
        let models = TestModels::default();
        TestHost {
            job,
            partition_key_value: Vec::new(),
            strict_cardinality: false,
            models,
            scratch,
        }
    }

    /// Appends an argument.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.job.arguments.push(argument.into());
        self
    }

    /// Appends arguments.
    #[must_use]
    pub fn arguments<A: Into<String>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.job.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable that [`Job::env`] returns. It does not change the environment of the
    /// test's process.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.job.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the worker's name.
    #[must_use]
    pub fn agent_name(mut self, name: impl Into<String>) -> Self {
        self.job.agent_name = name.into();
        self
    }

    /// Sets the node's id.
    #[must_use]
    pub fn node_id(mut self, id: impl Into<String>) -> Self {
        self.job.node_id = id.into();
        self
    }

    /// Sets the log folder. `init` creates it if it does not exist.
    #[must_use]
    pub fn log_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.job.log_dir = dir.into();
        self
    }

    /// Sets the output folder. `init` creates it if it does not exist.
    #[must_use]
    pub fn output_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.job.output_dir = dir.into();
        self
    }

    /// Sets the source folder.
    #[must_use]
    pub fn source_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.job.source_dir = Some(dir.into());
        self
    }

    /// Sets the index of the leased GPU.
    #[must_use]
    pub fn gpu_index(mut self, index: u32) -> Self {
        self.job.gpu_index = Some(index);
        self
    }

    /// Appends a partition key and its value to the context of each mini-batch. If the test passes its own
    /// context for a mini-batch, that context stays unchanged.
    #[must_use]
    pub fn partition_key(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.partition_key_value.push((key.into(), value.into()));
        self
    }

    /// Refuses results that do not have one row for each item, as a job with `strict_cardinality` does.
    #[must_use]
    pub fn strict_cardinality(mut self) -> Self {
        self.strict_cardinality = true;
        self
    }

    /// Adds a model to the job. `compute` returns its outputs. A second model of the same name replaces the
    /// first.
    ///
    /// Instead of a name, you can pass a [`Description`]. If the description has inputs, each call checks the
    /// given inputs against it, as a host does.
    ///
    /// ```
    /// use sandmill_guest::nn::{Description, Tensor};
    /// use sandmill_guest::test::TestHost;
    ///
    /// let digits = Description::new("digits").input::<f32>("pixels", &["N", "64"]);
    /// let host = TestHost::new().model(digits, |inputs| {
    ///     let sums: Vec<f32> =
    ///         inputs.get("pixels")?.rows::<f32>()?.map(|image| image.iter().sum()).collect();
    ///     Ok(vec![("sum", Tensor::new([sums.len()], sums)?)])
    /// });
    /// # let _ = host;
    /// ```
    #[must_use]
    pub fn model<N: Into<String>>(
        mut self,
        description: impl Into<Description>,
        compute: impl Fn(&Tensors) -> Result<Vec<(N, Tensor)>, NnError> + Send + Sync + 'static,
    ) -> Self {
        let named = move |(name, tensor): (N, Tensor)| (name.into(), tensor);
        let compute = move |inputs: &Tensors| Ok(compute(inputs)?.into_iter().map(named).collect());
        self.models.add(description.into(), Box::new(compute));
        self
    }

    /// The job that `init` would receive.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Calls the entry script's `init`.
    ///
    /// # Errors
    /// Returns the error of `init`, or says that a folder cannot be created.
    pub fn init<S: EntryScript>(self) -> Result<TestScript<S>> {
        crate::logging::install();
        captured::clear();
        for dir in [&self.job.log_dir, &self.job.output_dir] {
            std::fs::create_dir_all(dir)
                .map_err(|error| Error::from(error).context(dir.display().to_string()))?;
        }
        self.models.install();
        let script = S::init(&self.job)?;
        let TestHost { job, partition_key_value, strict_cardinality, scratch, .. } = self;
        Ok(TestScript {
            script,
            job,
            partition_key_value,
            strict_cardinality,
            next_id: 0,
            _scratch: scratch,
        })
    }
}

/// An instance of an entry script in a test. It dereferences to the entry script, so that a test can inspect
/// its state.
#[derive(Debug)]
pub struct TestScript<S> {
    script: S,
    job: Job,
    partition_key_value: Vec<(String, String)>,
    strict_cardinality: bool,
    next_id: u64,
    _scratch: Arc<TestFolder>,
}

impl<S: EntryScript<Input = Files>> TestScript<S> {
    /// Runs a mini-batch of files.
    ///
    /// # Errors
    /// Returns the error of `run`, or says why the job would refuse the results.
    pub fn run_files<P: AsRef<Path>>(&mut self, files: &[P]) -> Result<Results> {
        let context = self.next_context();
        self.run_files_with(files, &context)
    }

    /// Runs a mini-batch of files in the given context.
    ///
    /// # Errors
    /// Returns the error of `run`, or says why the job would refuse the results.
    pub fn run_files_with<P: AsRef<Path>>(
        &mut self,
        files: &[P],
        context: &MiniBatchContext,
    ) -> Result<Results> {
        let files = files.iter().map(|file| file.as_ref().to_owned()).collect();
        self.receive(Raw::Files(files), context)
    }
}

#[cfg(feature = "table")]
impl<S: EntryScript<Input = crate::Table>> TestScript<S> {
    /// Runs a mini-batch of rows.
    ///
    /// # Errors
    /// Returns the error of `run`, or says why the job would refuse the results.
    pub fn run_table(&mut self, table: arrow_array::RecordBatch) -> Result<Results> {
        let context = self.next_context();
        self.run_table_with(table, &context)
    }

    /// Runs a mini-batch of rows in the given context.
    ///
    /// # Errors
    /// Returns the error of `run`, or says why the job would refuse the results.
    pub fn run_table_with(
        &mut self,
        table: arrow_array::RecordBatch,
        context: &MiniBatchContext,
    ) -> Result<Results> {
        self.receive(Raw::Table(table), context)
    }
}

impl<S: EntryScript<Input = Void>> TestScript<S> {
    /// Runs a mini-batch without data.
    ///
    /// # Errors
    /// Returns the error of `run`, or says why the job would refuse the results.
    pub fn run_void(&mut self) -> Result<Results> {
        let context = MiniBatchContext { dataset: String::new(), ..self.next_context() };
        self.receive(Raw::Void, &context)
    }
}

impl<S: EntryScript> TestScript<S> {
    fn next_context(&mut self) -> MiniBatchContext {
        let partition_key_value = self.partition_key_value.clone();
        let default = MiniBatchContext::default();
        let context = MiniBatchContext { id: self.next_id, partition_key_value, ..default };
        self.next_id += 1;
        context
    }

    /// Calls `run`. Fails if a job would refuse the results.
    fn receive(&mut self, raw: Raw, context: &MiniBatchContext) -> Result<Results> {
        let items = raw.items();
        let is_void = matches!(raw, Raw::Void);
        let results = S::Input::receive(raw, |mini_batch| self.script.run(mini_batch, context))?;
        checked::check(&results, items)?;
        if self.strict_cardinality && !is_void {
            checked::check_count(&results, items)?;
        }
        Ok(results)
    }

    /// The job that `init` received.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The lines that were written to the log on this thread since `init` began. If the test installed
    /// another logger for the `log` crate, these are only the lines that [`logging`](crate::logging) wrote.
    pub fn logs(&self) -> Vec<LogLine> {
        captured::lines()
    }

    /// Calls `shutdown`.
    pub fn shutdown(mut self) {
        self.script.shutdown();
    }
}

impl<S> Deref for TestScript<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.script
    }
}

impl<S> DerefMut for TestScript<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.script
    }
}

/// A folder that is deleted when the test ends.
#[derive(Debug)]
struct TestFolder(PathBuf);

impl Default for TestFolder {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        TestFolder(std::env::temp_dir().join(format!("sandmill-test-{}-{number}", process::id())))
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        // The folder does not exist if `init` was not called, or if the test set both folders.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MiniBatchContext;
    use log::Level;

    struct Writes(PathBuf);

    impl EntryScript for Writes {
        type Input = Files;

        fn init(job: &Job) -> Result<Self> {
            log::debug!("by {}", job.agent_name());
            Ok(Writes(job.output_dir().join("out")))
        }

        fn run(&mut self, files: &[PathBuf], context: &MiniBatchContext) -> Result<Results> {
            crate::logging::warning("careful");
            std::fs::write(&self.0, context.id.to_string())?;
            Ok(Results::each(files, |file| Ok(crate::read(file)?.len().to_string())))
        }
    }

    #[test]
    fn folders_are_created_and_deleted() {
        let mut script = TestHost::new().agent_name("process007").init::<Writes>().unwrap();
        script.run_files(&["none"]).unwrap();
        let Results::Outcomes(outcomes) = script.run_files(&["none"]).unwrap() else { panic!() };
        let reason = outcomes[0].as_ref().unwrap_err();
        assert!(reason.starts_with("none: No such file"), "{reason}");
        assert_eq!(std::fs::read_to_string(&script.0).unwrap(), "1");
        let logs: Vec<_> = script.logs().into_iter().map(|l| (l.level, l.message)).collect();
        assert_eq!(logs[0], (Level::Debug, "by process007".to_owned()));
        assert_eq!(logs[1], (Level::Warn, "careful".to_owned()));
        let out = script.0.clone();
        script.shutdown();
        assert!(!out.exists());
    }

    #[test]
    fn a_wrong_kind_of_mini_batch_is_explained() {
        let mut script = TestHost::new().init::<Writes>().unwrap();
        let context = MiniBatchContext::default();
        let error = script.receive(Raw::Ipc(Vec::new()), &context).unwrap_err().to_string();
        assert!(
            error.contains("takes files (`type Input = Files`), but the mini-batch is a table")
        );
    }

    struct ReportsAll;

    impl EntryScript for ReportsAll {
        type Input = Files;

        fn init(_job: &Job) -> Result<Self> {
            Ok(ReportsAll)
        }

        fn run(&mut self, _files: &[PathBuf], context: &MiniBatchContext) -> Result<Results> {
            Ok(Results::rows([format!("{:?}", context.partition_value("user"))]))
        }
    }

    /// Rule E15 in docs/parallel-run-step.md: the context has the partition keys.
    #[test]
    fn a_test_sets_partition_keys() {
        let mut script = TestHost::new().partition_key("user", "ann").init::<ReportsAll>().unwrap();
        assert_eq!(script.run_files(&["a"]).unwrap(), Results::rows(["Some(\"ann\")"]));
        let context = MiniBatchContext::default();
        assert_eq!(script.run_files_with(&["a"], &context).unwrap(), Results::rows(["None"]));
    }

    #[test]
    fn a_strict_host_checks_the_row_count() {
        let mut script = TestHost::new().strict_cardinality().init::<ReportsAll>().unwrap();
        assert!(script.run_files(&["a"]).is_ok());
        assert_eq!(
            script.run_files(&["a", "b"]).unwrap_err().to_string(),
            "run returned 1 row for 2 items, and strict_cardinality asks for one row for each item: \
             return one for each, or set strict_cardinality to false"
        );
    }

    #[test]
    fn the_last_argument_counts() {
        let host = TestHost::new().arguments(["--a", "1", "--ab=2", "--a=3"]).argument("--c");
        assert_eq!(host.job().argument("--a"), Some("3"));
        assert_eq!(host.job().argument("--ab"), Some("2"));
        assert_eq!(host.job().argument("--c"), None);
        let host = TestHost::new().arguments(["--weights", "--top=-3", "--seed", "-1", "--x=--y"]);
        assert_eq!(host.job().argument("--weights"), None);
        assert_eq!(host.job().argument("--seed"), Some("-1"));
        assert_eq!(host.job().argument("--x"), Some("--y"));
        assert_eq!(host.env("A", "1").env("A", "2").job().env("A"), Some("2"));
    }

    #[test]
    fn flags_need_no_value() {
        let host = TestHost::new().arguments(["--rows", "--top", "3", "--a", "--a=false", "--b="]);
        let given = ["--rows", "--top", "--a", "--b", "--ro", "3"].map(|f| host.job().flag(f));
        assert_eq!(given, [true, true, false, true, false, true]);
    }
}
