//! The requests to the compiler process, and its limits.

use super::Instrumentation;
use crate::model::OsSandbox;

/// The hidden subcommand. It must call [`serve_compile`](super::serve_compile).
pub const COMPILE_COMMAND: &str = "compile-component";

/// The limit on CPU time, in seconds, for all threads together.
pub(super) const CPU_SECONDS: u64 = 1800;
/// The limit on the memory that the compiler may write to, in bytes.
pub(super) const MEMORY_BYTES: u64 = 8 << 30;
/// The limit on the size of compiled code, in bytes.
pub(super) const CODE_BYTES: u64 = 4 << 30;
/// The limit on the size of an answer, in bytes.
pub(super) const ANSWER_BYTES: u64 = 4 << 20;
/// The limit on the size of an entry script, in bytes.
pub(super) const SCRIPT_BYTES: u64 = 1 << 30;

/// The names of the tasks on the command line.
const COMPILE: &str = "compile";
const COMPONENTIZE: &str = "componentize";
const OUTLINE: &str = "outline";
const DESCRIBE: &str = "describe";
const PREPARE: &str = "prepare";
const SNAPSHOT: &str = "snapshot";

/// A request about an entry script.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CompileTask {
    /// Check that the entry script keeps the contract, and compile it.
    Compile {
        /// The SHA-256 that the entry script must have, in hex.
        digest: String,
        with: Instrumentation,
    },
    /// Turn a core module into a component.
    Componentize,
    /// Return a [`ComponentOutline`](super::ComponentOutline).
    Outline,
    /// Return a [`ScriptDescription`](super::ScriptDescription).
    Describe,
    /// Make the component that prepares an interpreter by running this text.
    Prepare(String),
    /// Make the component of a prepared interpreter. The input is the interpreter's module (this many bytes),
    /// followed by its memory.
    Snapshot(usize),
}

impl CompileTask {
    /// The arguments of [`COMPILE_COMMAND`].
    pub(super) fn words(&self, mode: OsSandbox) -> Vec<String> {
        let words = match self {
            Self::Compile { digest, with } => {
                let mut words = vec![mode.name(), COMPILE, digest];
                with.words().for_each(|word| words.push(word));
                words
            }
            Self::Componentize => vec![mode.name(), COMPONENTIZE],
            Self::Outline => vec![mode.name(), OUTLINE],
            Self::Describe => vec![mode.name(), DESCRIBE],
            Self::Prepare(text) => vec![mode.name(), PREPARE, text],
            Self::Snapshot(bytes) => {
                return vec![mode.name().into(), SNAPSHOT.into(), bytes.to_string()];
            }
        };
        words.into_iter().map(str::to_owned).collect()
    }

    /// Parses the arguments of [`COMPILE_COMMAND`].
    pub(super) fn parse(words: &[String]) -> Option<(Self, OsSandbox)> {
        let (mode, words) = words.split_first()?;
        let mode = OsSandbox::ALL.into_iter().find(|known| known.name() == mode)?;
        let (task_name, words) = words.split_first()?;
        let task = match (task_name.as_str(), words) {
            (COMPILE, [digest, more @ ..]) => {
                let with = Instrumentation::parse_words(more.iter().map(String::as_str))?;
                Self::Compile { digest: digest.clone(), with }
            }
            (COMPONENTIZE, []) => Self::Componentize,
            (OUTLINE, []) => Self::Outline,
            (DESCRIBE, []) => Self::Describe,
            (PREPARE, [text]) => Self::Prepare(text.clone()),
            (SNAPSHOT, [bytes]) => Self::Snapshot(bytes.parse().ok()?),
            _ => return None,
        };
        Some((task, mode))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Instrumentation =
        Instrumentation { fuel: false, profile: false, deterministic: false };

    #[test]
    fn tasks_are_words_of_the_command_line() {
        let all = Instrumentation { fuel: true, profile: true, deterministic: true };
        for with in [NONE, all] {
            let task = CompileTask::Compile { digest: "0a".into(), with };
            assert_eq!(
                CompileTask::parse(&task.words(OsSandbox::Off)),
                Some((task, OsSandbox::Off))
            );
        }
        for mode in OsSandbox::ALL {
            let interpreters = [CompileTask::Prepare("import a".into()), CompileTask::Snapshot(7)];
            let others = [CompileTask::Componentize, CompileTask::Outline, CompileTask::Describe];
            for task in others.into_iter().chain(interpreters) {
                assert_eq!(CompileTask::parse(&task.words(mode)), Some((task, mode)));
            }
        }
        for wrong in
            ["", "required", "required compile", "none outline", "off outline x", "off snapshot x"]
        {
            let words: Vec<_> = wrong.split(' ').map(str::to_owned).collect();
            assert_eq!(CompileTask::parse(&words), None, "{wrong}");
        }
    }
}
