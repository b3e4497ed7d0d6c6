//! The kind of mini-batch that an entry script declares. The Rust SDK writes it into the custom section
//! `sandmill:takes` of the core module. A component without that section may take any kind.

use crate::model::InputKind;
use serde::{Deserialize, Serialize};
use std::fmt;
use wasmparser::{Parser, Payload};

/// The name of the custom section.
const SECTION: &str = "sandmill:takes";

/// A kind of mini-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AcceptedKind {
    /// Names of files.
    Files,
    /// A table.
    Table,
    /// No data.
    Void,
}

impl AcceptedKind {
    const ALL: [Self; 3] = [Self::Files, Self::Table, Self::Void];

    /// Reads the kind that a component declares. `None` if it declares no kind, an unknown kind, or two
    /// kinds.
    pub(super) fn read(component: &[u8]) -> Option<Self> {
        let mut declared = None;
        for payload in Parser::new(0).parse_all(component) {
            // Ignore damaged bytes here: the code that reads the rest of the component reports
            // them.
            if let Payload::CustomSection(section) = payload.ok()?
                && section.name() == SECTION
            {
                let word = section.data().trim_ascii_end();
                let takes = Self::ALL.into_iter().find(|kind| kind.word().as_bytes() == word)?;
                if declared.replace(takes).is_some_and(|previous| previous != takes) {
                    return None;
                }
            }
        }
        declared
    }

    /// The word in the custom section.
    fn word(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Table => "table",
            Self::Void => "void",
        }
    }

    /// Encodes a kind as the byte that follows compiled code.
    pub(super) fn to_byte(takes: Option<Self>) -> u8 {
        takes.map_or(0, |takes| takes.word().as_bytes()[0])
    }

    /// Decodes a byte of [`AcceptedKind::to_byte`]; `None` for any other byte.
    pub(super) fn of_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|takes| Self::to_byte(Some(*takes)) == byte)
    }

    /// The kind of mini-batch that a job with these inputs gives to its entry script.
    pub fn given_by(inputs: &InputKind) -> Self {
        match inputs {
            InputKind::Files { .. } => Self::Files,
            InputKind::Tables { .. } => Self::Table,
            InputKind::Void { .. } => Self::Void,
        }
    }

    /// The word that job files and messages use.
    pub fn plain(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Table => "tables",
            Self::Void => "no data",
        }
    }

    /// Advice for a job that gives `given` to an entry script that takes `self`.
    pub fn remedy(self, given: Self) -> &'static str {
        match (self, given) {
            (Self::Void, _) => {
                "set `rank_mini_batch_count` in the job file instead of its inputs, or change the \
                 entry script's `type Input`"
            }
            (_, Self::Void) => {
                "remove `rank_mini_batch_count` from the job file and give it inputs, or set `type \
                 Input = Void` in the entry script"
            }
            (Self::Table, _) => {
                "give the job's inputs a `format` (e.g. `format: csv`), or set `type Input = Files` in \
                 the entry script"
            }
            (Self::Files, _) => {
                "remove `format` from the job's inputs, or set `type Input = Table` in the entry script"
            }
        }
    }
}

/// For messages such as "it takes ..".
impl fmt::Display for AcceptedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Files => "Files",
            Self::Table => "Table",
            Self::Void => "Void",
        };
        write!(f, "{} (`type Input = {name}`)", self.plain())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::testing;

    /// Reads a component whose core module declares these words.
    fn declared(words: &[&str]) -> Option<AcceptedKind> {
        let sections: String =
            words.iter().map(|word| format!("(@custom \"{SECTION}\" \"{word}\")\n")).collect();
        AcceptedKind::read(&testing::component(
            "run-only",
            &format!("{sections}{}", testing::RUN_EMPTY),
        ))
    }

    #[test]
    fn the_declaration_is_read_from_the_core_module() {
        assert_eq!(declared(&["files"]), Some(AcceptedKind::Files));
        assert_eq!(declared(&["table"]), Some(AcceptedKind::Table));
        assert_eq!(declared(&["void "]), Some(AcceptedKind::Void));
        assert_eq!(declared(&["void", "void "]), Some(AcceptedKind::Void));
        for unclear in [&[][..], &["rows"], &[""], &["files", "table"], &["files", "rows"]] {
            assert_eq!(declared(unclear), None, "{unclear:?}");
        }
        assert_eq!(AcceptedKind::read(b"no wasm"), None);
    }

    #[test]
    fn each_kind_is_encoded_as_a_byte() {
        for takes in AcceptedKind::ALL.map(Some).into_iter().chain([None]) {
            assert_eq!(AcceptedKind::of_byte(AcceptedKind::to_byte(takes)), takes);
        }
        assert_eq!(AcceptedKind::of_byte(7), None);
    }
}
