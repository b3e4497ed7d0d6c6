//! The formats of inputs.

use crate::model::TableKind;

/// The format of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputFormat {
    Files,
    /// CSV with tabs.
    Tsv,
    Table(TableKind),
}

impl InputFormat {
    /// All of them, in the order of the docs.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self::Files];
        for kind in TableKind::ALL {
            all.push(Self::Table(kind));
            if kind == TableKind::Csv {
                all.push(Self::Tsv);
            }
        }
        all
    }

    /// Its name in a job file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Tsv => "tsv",
            Self::Table(kind) => kind.name(),
        }
    }

    /// The format of its tables. `None` for files.
    pub(crate) fn table(self) -> Option<TableKind> {
        match self {
            Self::Files => None,
            Self::Tsv => Some(TableKind::Csv),
            Self::Table(kind) => Some(kind),
        }
    }
}
