//! The input of a check of the conformance kit (a plan), and the parts of the outcome that the check sees.

use crate::model::{Failure, printable};
use crate::node::trial::{InstanceResults, TrialTableKind};

/// The separator of the parts of a command. No argument and no file name contains it.
const SEPARATOR: &str = "\u{1f}";
/// The folder of the mini-batches' files, as the guest sees it.
pub(super) const FILES_FOLDER: &str = "/inputs/items/0";
/// The prefix of the error that a script returns if its language cannot do what the command wants.
const LACKS_PREFIX: &str = "not in this language: ";
/// The maximum number of bytes of a found value that a message shows.
const MAX_SHOWN_BYTES: usize = 200;

/// A command for the kit's script, as written to a file or passed as an argument.
pub(super) fn command(parts: &[&str]) -> String {
    parts.join(SEPARATOR)
}

/// The input for the life of an instance, from `init` to `shutdown`.
#[derive(Clone, Debug)]
pub(super) struct KitPlan {
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) mini_batches: Vec<KitMiniBatch>,
    /// The guest's memory limit in bytes; `None` for the default.
    pub(super) memory: Option<u64>,
    /// The largest file that `read` reads, in bytes; `None` for the default.
    pub(super) read: Option<u64>,
    /// How many seconds the whole plan may take.
    pub(super) seconds: u64,
}

#[derive(Clone, Debug)]
pub(super) struct KitMiniBatch {
    pub(super) data: KitData,
    /// The context: this field and the next three.
    pub(super) id: u64,
    pub(super) dataset: String,
    pub(super) attempt: u32,
    pub(super) keys: Vec<(String, String)>,
    /// How often the mini-batch is run.
    pub(super) times: u32,
}

/// The data of a mini-batch.
#[derive(Clone, Debug)]
pub(super) enum KitData {
    /// The command, which is the content of the first file, and the other files: name and content.
    Files(String, Vec<(String, Vec<u8>)>),
    /// A table; the command is the first argument.
    Table(TrialTableKind),
    /// No data; the command is the first argument.
    Void,
}

impl KitPlan {
    pub(super) fn from_mini_batches(mini_batches: impl IntoIterator<Item = KitMiniBatch>) -> Self {
        Self {
            arguments: Vec::new(),
            environment: Vec::new(),
            mini_batches: mini_batches.into_iter().collect(),
            memory: None,
            read: None,
            seconds: 120,
        }
    }

    pub(super) fn with_arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments = arguments.iter().map(|&it| it.to_owned()).collect();
        self
    }
}

impl KitMiniBatch {
    /// A mini-batch with only the file of a command.
    pub(super) fn command(parts: &[&str]) -> Self {
        Self::from_data(KitData::Files(command(parts), Vec::new()))
    }

    pub(super) fn from_data(data: KitData) -> Self {
        let dataset = "kit".to_owned();
        Self { data, id: 0, dataset, attempt: 1, keys: Vec::new(), times: 1 }
    }

    /// Adds a file.
    pub(super) fn and(mut self, name: &str, content: impl Into<Vec<u8>>) -> Self {
        if let KitData::Files(_, files) = &mut self.data {
            files.push((name.to_owned(), content.into()));
        }
        self
    }

    pub(super) fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }
}

#[derive(Clone, Debug)]
pub(super) struct PlanResult {
    pub(super) ending: InstanceEnding,
    /// What the entry script wrote to its standard output.
    pub(super) stdout: String,
    /// What the entry script wrote to its standard error.
    pub(super) stderr: String,
    /// The lines that the entry script logged, with their levels.
    pub(super) log: String,
    /// The content of the file `kit.txt` in the output folder.
    pub(super) output: String,
}

/// How an instance ended.
#[derive(Clone, Debug)]
pub(super) enum InstanceEnding {
    /// All mini-batches were run.
    Completed(InstanceResults),
    /// The process was killed because it took too long.
    TimedOut,
    /// The process died; the text says how.
    Died(String),
}

/// Why a check did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckFailure {
    /// What was wrong, in words.
    Failed(String),
    /// Why nothing could be checked.
    Skipped(String),
}

pub(super) type CheckVerdict = Result<(), CheckFailure>;

/// A failed check, with the reason.
pub(super) fn wrong(text: impl Into<String>) -> CheckFailure {
    CheckFailure::Failed(text.into())
}

pub(super) fn equal<T: PartialEq<U> + std::fmt::Debug + ?Sized, U: std::fmt::Debug + ?Sized>(
    what: &str,
    found: &T,
    expected: &U,
) -> CheckVerdict {
    if found == expected {
        return Ok(());
    }
    let [found, expected] = [format!("{found:?}"), format!("{expected:?}")].map(|it| shown(&it));
    Err(wrong(format!("{what}: found {found}, expected {expected}")))
}

pub(super) fn contains(what: &str, text: &str, part: &str) -> CheckVerdict {
    match text.contains(part) {
        true => Ok(()),
        false => Err(wrong(format!("{what}: found {}, expected {part:?} in it", shown(text)))),
    }
}

fn shown(text: &str) -> String {
    let text = if text.is_empty() { "nothing" } else { text };
    let cut = &text[..text.floor_char_boundary(MAX_SHOWN_BYTES)];
    let more = if cut.len() < text.len() { "..." } else { "" };
    format!("{}{more}", printable(cut))
}

impl PlanResult {
    /// The outcomes of the mini-batches, if the process lived to the end.
    pub(super) fn results(&self) -> Result<&InstanceResults, CheckFailure> {
        match &self.ending {
            InstanceEnding::Completed(results) => Ok(results),
            InstanceEnding::TimedOut => Err(wrong("it took too long and was ended")),
            InstanceEnding::Died(how) => Err(wrong(format!("its process {how}"))),
        }
    }

    /// The rows of a mini-batch. Fails if an item failed.
    pub(super) fn rows(&self, index: usize) -> Result<Vec<&str>, CheckFailure> {
        let outcomes = self.outcomes(index)?;
        let reason_of = |it: &'_ Result<String, String>| it.as_ref().err().cloned();
        if let Some(reason) = outcomes.iter().find_map(reason_of) {
            return Err(wrong(format!("an item failed: {}", shown(&reason))));
        }
        Ok(outcomes.iter().flatten().map(String::as_str).collect())
    }

    /// The rows and failed items of a mini-batch whose call succeeded.
    pub(super) fn outcomes(&self, index: usize) -> Result<&[Result<String, String>], CheckFailure> {
        let mini_batch = self.mini_batch(index)?;
        match &mini_batch.failure {
            Some(failure) => Err(failed(failure)),
            None => Ok(&mini_batch.rows),
        }
    }

    /// The failure of a mini-batch that must fail.
    pub(super) fn failure(&self, index: usize) -> Result<&Failure, CheckFailure> {
        let failure = self.mini_batch(index)?.failure.as_ref();
        match failure.map(|it| (it, skip_reason(it))) {
            None => Err(wrong("the attempt succeeded, but it should have failed")),
            Some((_, Some(why))) => Err(why),
            Some((failure, None)) => Ok(failure),
        }
    }

    /// The outcome of a mini-batch. Fails if `init` failed, or if the mini-batch was not run.
    pub(super) fn mini_batch(
        &self,
        index: usize,
    ) -> Result<&crate::node::trial::TrialResult, CheckFailure> {
        let results = self.results()?;
        if let Some(failure) = &results.init {
            return Err(wrong(format!("init failed: {}", shown(&failure.message))));
        }
        results.steps.get(index).ok_or_else(|| wrong(format!("mini-batch {index} was not run")))
    }
}

fn failed(failure: &Failure) -> CheckFailure {
    let describe = || wrong(format!("run failed: {}", shown(&failure.message)));
    skip_reason(failure).unwrap_or_else(describe)
}

/// The reason to skip the check, if the script's language cannot do what the command wants.
fn skip_reason(failure: &Failure) -> Option<CheckFailure> {
    let (_, what) = failure.message.split_once(LACKS_PREFIX)?;
    Some(CheckFailure::Skipped(format!("{LACKS_PREFIX}{}", shown(what))))
}
