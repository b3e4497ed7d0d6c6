//! What a job reads from stores, and who brings it to this machine.

use super::error::NodeError;
use super::features::check_stores;
use super::options::NodeOptions;
use crate::compile::Cache;
use crate::dataset::{self, DatasetError, Pattern, TableLog};
use crate::model::{ByteSize, Input, InputKind, Mount, Source};
use crate::spec::{Datastores, JobSpec, ModelSpec, StoredKind};
use crate::store::{Coming, Kept, Objects, Stager, StoreError, Watch};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The folder for objects, below that for compiled code.
const OBJECTS: &str = "objects";
/// How often it is told how far it is.
const TELL: Duration = Duration::from_secs(10);

/// What a job reads, as it lies on this machine.
#[derive(Debug)]
pub struct Staged {
    /// What the inputs are made of.
    pub sources: Vec<Source>,
    /// What must be kept for as long as the inputs are read.
    pub objects: Objects,
    /// The job's side inputs; those of stores at the folders that they were fetched to.
    pub side_inputs: Vec<Mount>,
    /// The job's models; those of stores at the paths that they were fetched to.
    pub models: Vec<ModelSpec>,
}

/// Finds what the inputs of a job are made of. Side inputs and models of the job that lie in stores are fetched, and
/// get paths of this machine. Asks the operator's policy first. `say` gets lines for people.
///
/// Files are handed over by name: they come when their mini-batches are near. Tables are looked into while the
/// job is planned: where they fit into the cache, all of them are on their way when this returns, and the planner
/// [asks](crate::protocol::PlanRequest::asks) for those that are not here yet; else each comes when it asks for it.
///
/// # Errors
/// If the policy does not allow a store, or what the job names cannot be found, listed or does not fit, or a side
/// input or a model cannot be fetched.
pub fn stage(
    spec: &JobSpec,
    options: &NodeOptions,
    say: &mut dyn FnMut(&str),
) -> Result<Staged, NodeError> {
    check_stores(spec)?;
    let mut staged = Staged {
        sources: Vec::new(),
        objects: Objects::default(),
        side_inputs: spec.side_inputs.clone(),
        models: spec.models.clone(),
    };
    let inputs = stage_inputs(spec, options, &mut staged, say)?;
    staged.sources = dataset::resolve_with(&inputs, &mut staged.objects.lookup())?;
    for source in &mut staged.sources {
        let is_of = |input: &&Input| input.name == source.dataset;
        let input = spec.inputs.iter().find(is_of);
        let is_stored = input.is_some_and(|input| input.addresses().next().is_some());
        if let Some(input) = input.filter(|_| !is_stored) {
            look_for_log(spec, input, source, say)?;
        }
        if is_stored && !staged.objects.claim(source) {
            return Err(outside(&format!("input '{}'", source.dataset), &source.root).into());
        }
        // A folder would be seen with whatever has come to it.
        let is_of_files = matches!(spec.input_kind, InputKind::Files { .. });
        if is_stored && is_of_files && source.pattern.is_none() {
            source.pattern = Some("**".to_owned());
        }
    }
    Ok(staged)
}

/// Looks whether a source is a table whose log says which rows it has, or a part of one. Fails if its files are to be
/// read as the table's rows. A file that is named is meant, as are files that are handed over.
fn look_for_log(
    spec: &JobSpec,
    input: &Input,
    source: &Source,
    say: &mut dyn FnMut(&str),
) -> Result<(), DatasetError> {
    let is_of_files = matches!(spec.input_kind, InputKind::Files { .. });
    if !is_of_files && !refuses_tables(spec, input) {
        return Ok(());
    }
    let Some((log, table)) = TableLog::above(&source.root) else { return Ok(()) };
    let input = format!("input '{}'", input.name);
    let table = table.display().to_string();
    let names_files = matches!(Pattern::new(source.pattern.as_deref())?, Pattern::List(_));
    if !is_of_files && !names_files {
        return Err(DatasetError(format!("{input}: {}", log.refusal(&table))));
    }
    say(&format!(
        "{input}: {table} is a table of the format {}; its files are taken as they are, also those whose \
         rows it no longer has",
        log.name()
    ));
    Ok(())
}

/// Whether an input is Parquet files that are not said to be meant as they are.
fn refuses_tables(spec: &JobSpec, input: &Input) -> bool {
    let InputKind::Tables { inputs: tables, .. } = &spec.input_kind else { return false };
    let table = spec.inputs.iter().zip(tables).find(|(known, _)| known.name == input.name);
    table.is_some_and(|(_, table)| table.kind.may_have_log() && !table.files)
}

/// Nobody but the process that fetches could have put a link there.
fn outside(what: &str, path: &Path) -> StoreError {
    StoreError::AllOutside(path.to_owned()).of(what)
}

/// The inputs as paths of this machine. All else that was fetched is put into `staged`.
fn stage_inputs(
    spec: &JobSpec,
    options: &NodeOptions,
    staged: &mut Staged,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Input>, NodeError> {
    if spec.addresses().iter().all(|(_, address)| Some(address) == spec.upload.as_ref()) {
        return Ok(spec.inputs.clone());
    }
    options.policy.check_stores(spec)?;
    let cache = cache(options)?;
    let stop = || options.cancel.reason().is_some();
    let mut watch = Watch { stop: &stop, say };
    let mut kept = Kept::default();
    let stager = stager(spec, options, &cache);
    for stored in &spec.stored {
        let wrong = |error: StoreError| error.of(&stored.key);
        let path = stager.fetch(&stored.key, &stored.address, &mut kept, &mut watch)?;
        match stored.kind {
            StoredKind::SideInput(_) if !path.is_dir() => {
                return Err(wrong(StoreError::OneObject(stored.address.to_string())).into());
            }
            StoredKind::SideInput(index) => {
                if let Some(mount) = staged.side_inputs.get_mut(index) {
                    mount.host = path;
                }
            }
            StoredKind::Model(index) => {
                if let Some(model) = staged.models.get_mut(index) {
                    let fetched = model.fetched(&path, stored.version);
                    *model = fetched.map_err(|error| wrong(StoreError::Model(error)))?;
                }
            }
        }
    }
    let (inputs, objects) = stager.stage(&spec.inputs, coming(spec), kept, &mut watch)?;
    staged.objects = objects;
    Ok(inputs)
}

/// Rows are grouped when all of them are here, and databases are many files at once.
fn coming(spec: &JobSpec) -> Coming {
    match &spec.input_kind {
        InputKind::Files { .. } => Coming::OnDemand,
        InputKind::Tables { inputs, .. } => {
            let are_whole = inputs.iter().any(|table| table.kind.is_whole());
            match are_whole || !spec.partition_keys.is_empty() {
                true => Coming::AtOnce,
                false => Coming::AsTheyFit,
            }
        }
        InputKind::Void { .. } => Coming::AtOnce,
    }
}

/// Waits for all objects that come unasked: a plan that is compared with an earlier one must not have to wait.
pub(super) fn wait_for(objects: &Objects, options: &NodeOptions, say: &mut dyn FnMut(&str)) {
    let mut told = Instant::now();
    objects.wait(&|| options.cancel.reason().is_some(), &mut |objects, bytes| {
        if told.elapsed() >= TELL {
            told = Instant::now();
            say(&format!("so far {objects} objects, {}", ByteSize(bytes).rounded()));
        }
    });
}

/// Puts the results of a completed job into the store that it names, if it does.
///
/// # Errors
/// If the policy does not allow the store, or the results did not arrive there.
pub fn put_results(
    spec: &JobSpec,
    options: &NodeOptions,
    output: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), NodeError> {
    let Some(address) = &spec.upload else { return Ok(()) };
    options.policy.check_stores(spec)?;
    let stop = || options.cancel.reason().is_some();
    let mut watch = Watch { stop: &stop, say };
    Ok(stager(spec, options, Path::new("")).put(output, address, &mut watch)?)
}

fn stager<'a>(spec: &'a JobSpec, options: &'a NodeOptions, cache: &'a Path) -> Stager<'a> {
    let refused = spec.inputs.iter().filter(|input| refuses_tables(spec, input));
    Stager {
        program: &options.program,
        cache,
        os_sandbox: spec.worker.os_sandbox,
        datastores: &options.datastores,
        tenant: &spec.settings.tenant,
        without_tables: refused.map(|input| input.name.clone()).collect(),
    }
}

fn cache(options: &NodeOptions) -> Result<PathBuf, StoreError> {
    let folder = objects_folder(&options.datastores, options.cache_dir.as_deref());
    folder.ok_or(StoreError::NoCache)
}

/// The folder for objects: that of the file of datastores, else one below the folder for compiled code. `None` where
/// nothing says where that is.
pub fn objects_folder(datastores: &Datastores, cache_dir: Option<&Path>) -> Option<PathBuf> {
    let named = datastores.cache_folder().map(ToOwned::to_owned);
    let usual = || cache_dir.map(ToOwned::to_owned).or_else(Cache::default_folder);
    named.or_else(|| Some(usual()?.join(OBJECTS)))
}
