//! What a job reads from stores, brought to this machine before anybody plans.

use super::prepare::{Options, PrepareError};
use crate::compile::Cache;
use crate::model::Input;
use crate::spec::JobSpec;
use crate::store::{Slot, Stager, StoreError};
use std::path::{Path, PathBuf};

/// The folder for objects, below that for compiled code.
const OBJECTS: &str = "objects";

/// The inputs of a job as paths of this machine, and what must be kept for as long as anybody reads there.
/// Asks the operator's policy first. `say` gets lines for people.
///
/// # Errors
/// If the policy does not allow a store, or what the job names cannot be listed or does not fit.
pub fn stage_inputs(
    spec: &JobSpec,
    options: &Options,
    say: &mut dyn FnMut(&str),
) -> Result<(Vec<Input>, Vec<Slot>), PrepareError> {
    if spec.inputs.iter().all(|input| input.addresses().next().is_none()) {
        return Ok((spec.inputs.clone(), Vec::new()));
    }
    options.policy.check_stores(spec)?;
    let cache = cache(options)?;
    let stager = stager(spec, options, &cache);
    let (mut inputs, mut slots) = (Vec::new(), Vec::new());
    for input in &spec.inputs {
        let stop = || options.cancel.reason().is_some();
        let (staged, more) = stager.stage(input, &stop, say)?;
        inputs.push(staged);
        slots.extend(more);
    }
    Ok((inputs, slots))
}

/// Puts the results of a completed job into the store that it names, if it does.
///
/// # Errors
/// If the policy does not allow the store, or the results did not arrive there.
pub fn put_results(
    spec: &JobSpec,
    options: &Options,
    output: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), PrepareError> {
    let Some(address) = &spec.upload else { return Ok(()) };
    options.policy.check_stores(spec)?;
    let stop = || options.cancel.reason().is_some();
    Ok(stager(spec, options, Path::new("")).put(output, address, &stop, say)?)
}

fn stager<'a>(spec: &'a JobSpec, options: &'a Options, cache: &'a Path) -> Stager<'a> {
    Stager {
        program: &options.program,
        cache,
        os_sandbox: spec.os_sandbox,
        datastores: &options.datastores,
        tenant: &spec.tenant,
    }
}

fn cache(options: &Options) -> Result<PathBuf, StoreError> {
    let named = options.datastores.cache_folder().map(ToOwned::to_owned);
    let usual = || options.cache_dir.clone().or_else(Cache::default_folder);
    named.or_else(|| Some(usual()?.join(OBJECTS))).ok_or_else(|| {
        StoreError(
            "there is no place for objects of stores: none of SANDMILL_CACHE_DIR, XDG_CACHE_HOME and \
             HOME is set. Set SANDMILL_CACHE_DIR to a folder of yours"
                .to_owned(),
        )
    })
}
