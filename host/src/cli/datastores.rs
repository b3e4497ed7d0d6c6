//! Finds the file of datastores.

use super::exit::Problem;
use crate::spec::Datastores;
use std::path::PathBuf;

/// The variable that names the file.
const VARIABLE: &str = "SANDMILL_DATASTORES";

/// The stores that jobs may name.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct DatastoresArgument {
    /// The file of datastores: the stores that inputs may name, with their credentials. It must be readable
    /// only by its owner [default: $SANDMILL_DATASTORES].
    #[arg(long, value_name = "FILE")]
    datastores: Option<PathBuf>,
}

impl DatastoresArgument {
    /// Reads the file. If there is no file, there are no datastores.
    pub(super) fn load(&self) -> Result<Datastores, Problem> {
        match self.which() {
            Some(file) => {
                Datastores::load(&file).map_err(|errors| Problem::each_line(&errors.to_string()))
            }
            None => Ok(Datastores::default()),
        }
    }

    /// The path of the file; `None` if none is named.
    pub(super) fn which(&self) -> Option<PathBuf> {
        let variable = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        self.datastores.clone().or_else(|| variable.map(PathBuf::from))
    }
}
