//! The job store that `--store` names: a folder, or an address in a store.

use super::datastores::DatastoresArgument;
use super::exit::Problem;
use super::run::this_program;
use crate::model::{Address, OsSandbox};
use crate::store::{Stager, StoreObjects};
use std::path::Path;

/// The tenant of commands that belong to no job.
const TENANT: &str = "default";

/// The address that a text names. `None` if it names a folder.
pub(super) fn address(store: &Path) -> Result<Option<Address>, Problem> {
    let text = store.to_string_lossy();
    if !Address::looks_like_one(&text) {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error| Problem::usage(anyhow::anyhow!("--store: {error}")))
}

/// The objects below an address.
pub(super) fn objects_at(
    address: &Address,
    datastores: &DatastoresArgument,
) -> Result<StoreObjects, Problem> {
    let stager = Stager {
        program: &this_program()?,
        cache: Path::new(""),
        os_sandbox: OsSandbox::BestEffort,
        datastores: &datastores.load()?,
        tenant: TENANT,
        without_tables: Vec::new(),
    };
    stager
        .objects_at(address, "")
        .map_err(|error| Problem::usage(anyhow::anyhow!("--store: {error}")))
}
