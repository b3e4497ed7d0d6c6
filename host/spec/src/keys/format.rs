//! The formats of inputs.

use crate::model::TableKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputFormat {
    Files,
    /// CSV with tabs between fields.
    Tsv,
    Table(TableKind),
}

impl InputFormat {
    /// All formats, in the order of the docs.
    pub(crate) fn all() -> Vec<Self> {
        let mut formats = vec![Self::Files];
        for kind in TableKind::ALL {
            formats.push(Self::Table(kind));
            if kind == TableKind::Csv {
                formats.push(Self::Tsv);
            }
        }
        formats
    }

    /// The format's name in a job file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Tsv => "tsv",
            Self::Table(kind) => kind.name(),
        }
    }

    /// The kind of the tables. `None` for files.
    pub(crate) fn table(self) -> Option<TableKind> {
        match self {
            Self::Files => None,
            Self::Tsv => Some(TableKind::Csv),
            Self::Table(kind) => Some(kind),
        }
    }
}
