//! The job store that `--store` names: a folder, or an address in a store.

use super::datastores::DatastoresArgument;
use super::exit::Problem;
use super::run::this_program;
use crate::engine::StorePlace;
use crate::model::{Address, OsSandbox};
use crate::store::{Stager, StoreObjects};
use std::path::Path;
use std::sync::Arc;

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
        uploads: &[],
    };
    stager
        .objects_at(address, "")
        .map_err(|error| Problem::usage(anyhow::anyhow!("--store: {error}")))
}

/// Opens a job store to read what it says about jobs.
///
/// # Errors
/// If there is no such folder, if the address is wrong, or if the datastores cannot be read.
pub(super) fn open_place(
    store: &Path,
    datastores: &DatastoresArgument,
) -> Result<StorePlace, Problem> {
    match address(store)? {
        None => StorePlace::in_folder(store).map_err(Problem::usage),
        Some(address) => {
            let objects = objects_at(&address, datastores)?;
            Ok(StorePlace::at_address(&address, Arc::new(objects)))
        }
    }
}
