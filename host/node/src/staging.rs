//! Downloads what a job reads from stores, and uploads its results.

use super::error::NodeError;
use super::features::check_stores;
use super::options::NodeOptions;
use super::uploaded::refuse_changed_uploads;
use crate::compile::Cache;
use crate::dataset::{self, DatasetError, Pattern, TableLog};
use crate::model::{Address, ByteSize, InputKind, JobInput, Mount, OsSandbox, Source, hex};
use crate::protocol::node::ListedInputs;
use crate::spec::{Datastores, JobSpec, ModelSpec, StoredKind};
use crate::store::{FetchTiming, JobObjects, KeptObjects, Stager, StoreError, StoreObjects, Watch};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The name of the folder for objects, inside the folder for compiled code.
const OBJECTS_FOLDER: &str = "objects";
/// The interval of progress messages.
const NOTICE_INTERVAL: Duration = Duration::from_secs(10);

/// What a job reads, with paths on this machine.
#[derive(Debug)]
pub struct Staged {
    /// The sources of the inputs.
    pub sources: Vec<Source>,
    /// Keeps the objects of the inputs on this machine. Must live while the inputs are read.
    pub objects: JobObjects,
    /// The job's side inputs. A side input from a store has the folder to which it was downloaded.
    pub side_inputs: Vec<Mount>,
    /// The job's models. A model from a store has the path to which it was downloaded.
    pub models: Vec<ModelSpec>,
    /// What was found when the stores of the inputs were listed.
    pub listed: ListedInputs,
}

/// Finds the sources of a job's inputs, and downloads side inputs and models from stores. Checks the
/// operator's policy first. `say` gets lines for the user.
///
/// If the entry script gets the names of files, each file is downloaded when its mini-batch is due.
/// Tables are read while the job is planned. If all tables fit into the cache, their download has
/// begun when this returns. The planner then [asks](crate::protocol::PlanRequest::asks) only for
/// tables that have not arrived yet. Otherwise each table is downloaded when the planner asks for
/// it.
///
/// `listed`: what another machine has found in the stores of the inputs. Then this machine does not list them, and
/// downloads only objects whose names, lengths and versions the other machine sends. `None` if this machine lists them.
/// `has_remote_workers`: whether other machines run the job's workers, and download what these read. Then only the planner
/// here reads tables, and each is downloaded when the planner asks for it.
///
/// # Errors
/// If the policy forbids a store, if something that the job names cannot be found or listed or does not fit,
/// or if a side input or a model cannot be downloaded.
pub fn stage(
    spec: &JobSpec,
    options: &NodeOptions,
    (listed, has_remote_workers): (Option<&ListedInputs>, bool),
    say: &mut dyn FnMut(&str),
) -> Result<Staged, NodeError> {
    check_stores(spec)?;
    let stop = || options.cancel.reason().is_some();
    refuse_changed_uploads(spec, listed.is_none(), &stop)?;
    let mut staged = Staged {
        sources: Vec::new(),
        objects: JobObjects::default(),
        side_inputs: spec.side_inputs.clone(),
        models: spec.models.clone(),
        listed: listed.cloned().unwrap_or_default(),
    };
    let known = (listed, has_remote_workers);
    let inputs = stage_inputs(spec, options, known, &mut staged, say)?;
    let are_objects = resolve(&inputs, listed, &mut staged)?;
    for source in &mut staged.sources {
        let has_source = |input: &&JobInput| input.name == source.dataset;
        let input = spec.inputs.iter().find(has_source);
        let is_stored = input.is_some_and(|input| input.addresses().next().is_some());
        if let Some(input) = input.filter(|_| !is_stored) {
            check_table_log(spec, input, source, say)?;
        }
        let is_claimed = |source: &mut Source| match listed {
            None => staged.objects.claim(source),
            Some(_) => staged.objects.holds(&source.root),
        };
        if is_stored && !is_claimed(source) {
            return Err(outside(&format!("input '{}'", source.dataset), &source.root).into());
        }
        // Without a pattern, the folder would also show files that are not part of the input.
        let gets_files = matches!(spec.input_kind, InputKind::Files { .. });
        if is_stored && gets_files && source.pattern.is_none() {
            source.pattern = Some("**".to_owned());
        }
    }
    let sources = outline(&staged.sources);
    match listed {
        Some(listed) if listed.sources != sources => return Err(NodeError::OtherSources),
        Some(_) => {}
        None => {
            let samples = staged.objects.samples();
            staged.listed = ListedInputs { are_objects, samples, sources, local: Vec::new() };
        }
    }
    Ok(staged)
}

/// Finds the sources of the inputs. Returns for each path of an input that is in a store whether it is that of an object.
fn resolve(
    inputs: &[JobInput],
    listed: Option<&ListedInputs>,
    staged: &mut Staged,
) -> Result<Vec<bool>, DatasetError> {
    let mut are_objects = Vec::new();
    let mut lookup = staged.objects.lookup();
    let mut is_object = |path: &Path| {
        if !staged.objects.holds(path) {
            return false;
        }
        let is_object = match listed {
            Some(listed) => listed.are_objects.get(are_objects.len()).copied().unwrap_or_default(),
            None => lookup(path),
        };
        are_objects.push(is_object);
        is_object
    };
    staged.sources = dataset::resolve_with(inputs, &mut is_object)?;
    Ok(are_objects)
}

/// A digest of the sources, without the folders on this machine.
fn outline(sources: &[Source]) -> String {
    let mut digest = Sha256::new();
    for Source { guest, pattern, partition_format, .. } in sources {
        let texts = [Some(guest), pattern.as_ref(), partition_format.as_ref()];
        for text in texts {
            digest.update([u8::from(text.is_some())]);
            digest.update(text.map_or("", String::as_str));
            digest.update([0]);
        }
    }
    hex(digest.finalize())
}

/// Checks whether a source is, or is part of, a table whose log says which rows are valid, such as
/// a Delta Lake table. Fails if the job would read the rows of all the table's files, valid or not.
/// Allows jobs that list the files, and entry scripts that get files instead of rows, with a
/// notice.
pub(super) fn check_table_log(
    spec: &JobSpec,
    input: &JobInput,
    source: &Source,
    say: &mut dyn FnMut(&str),
) -> Result<(), DatasetError> {
    let gets_files = matches!(spec.input_kind, InputKind::Files { .. });
    if !gets_files && !refuses_tables(spec, input) {
        return Ok(());
    }
    let Some((log, table)) = TableLog::above(&source.root) else { return Ok(()) };
    let input = format!("input '{}'", input.name);
    let table = table.display().to_string();
    let names_files = matches!(Pattern::new(source.pattern.as_deref())?, Pattern::List(_));
    if !gets_files && !names_files {
        return Err(DatasetError(format!("{input}: {}", log.refusal(&table))));
    }
    say(&format!(
        "{input}: {table} is a table of the format {}; all its files are read, including files whose \
         rows were deleted from the table",
        log.name()
    ));
    Ok(())
}

/// Whether an input consists of Parquet files and the job does not say to read them as plain files.
pub(super) fn refuses_tables(spec: &JobSpec, input: &JobInput) -> bool {
    let InputKind::Tables { inputs: tables, .. } = &spec.input_kind else { return false };
    let table = spec.inputs.iter().zip(tables).find(|(known, _)| known.name == input.name);
    table.is_some_and(|(_, table)| table.kind.may_have_log() && !table.files)
}

/// The error for a link that leads out of the cache. Only the downloading process could have made
/// it.
fn outside(what: &str, path: &Path) -> StoreError {
    StoreError::AllOutside(path.to_owned()).with_input(what)
}

/// Downloads side inputs and models into `staged`, and starts the download of inputs. Returns the inputs with
/// paths on this machine.
fn stage_inputs(
    spec: &JobSpec,
    options: &NodeOptions,
    (listed, has_remote_workers): (Option<&ListedInputs>, bool),
    staged: &mut Staged,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<JobInput>, NodeError> {
    let has_inputs = spec.inputs.iter().any(|input| input.addresses().next().is_some());
    if !has_inputs && spec.stored.is_empty() {
        return Ok(spec.inputs.clone());
    }
    options.policy.check_stores(spec)?;
    let cache = cache(options)?;
    let stop = || options.cancel.reason().is_some();
    let mut watch = Watch { stop: &stop, say };
    let mut kept = KeptObjects::default();
    let stager = stager(spec, options, &cache);
    for stored in &spec.stored {
        let with_key = |error: StoreError| error.with_input(&stored.key);
        let folder = stager.fetch(&stored.key, &stored.address, &mut kept, &mut watch)?;
        let path = match &stored.file {
            None => folder,
            Some(file) => uploaded_file(&folder, file).map_err(with_key)?,
        };
        match stored.kind {
            StoredKind::SideInput(_) if stored.file.is_none() && !path.is_dir() => {
                return Err(with_key(StoreError::OneObject(stored.address.to_string())).into());
            }
            StoredKind::SideInput(index) => {
                if let Some(mount) = staged.side_inputs.get_mut(index) {
                    mount.host = path;
                }
            }
            StoredKind::Model(index) => {
                if let Some(model) = staged.models.get_mut(index) {
                    let fetched = model.fetched(&path, stored.version);
                    *model = fetched.map_err(|error| with_key(StoreError::Model(error)))?;
                }
            }
        }
    }
    let timing = match fetch_timing(spec) {
        // The leader need not fetch what an earlier leader has planned.
        FetchTiming::AsTheyFit if has_remote_workers => FetchTiming::AsPlanned,
        timing => timing,
    };
    let (inputs, objects) = match listed {
        None => stager.stage(&spec.inputs, timing, kept, &mut watch)?,
        Some(ListedInputs { are_objects, samples, .. }) => {
            let listed = (are_objects.as_slice(), samples.as_slice());
            stager.stage_listed(&spec.inputs, timing, listed, kept, &mut watch)?
        }
    };
    staged.objects = objects;
    Ok(inputs)
}

/// The only file of a folder to which a submitter has uploaded it.
fn uploaded_file(folder: &Path, file: &str) -> Result<PathBuf, StoreError> {
    let path = folder.join(file);
    match path.symlink_metadata() {
        Ok(found) if found.is_file() => Ok(path),
        // Only the downloading process could have made something else.
        Ok(_) => Err(StoreError::AllOutside(path)),
        Err(source) => Err(StoreError::Lost { path: path.display().to_string(), source }),
    }
}

/// When objects are downloaded. Grouping by keys needs all rows, and a database consists of many files, so
/// both need all objects before planning begins.
fn fetch_timing(spec: &JobSpec) -> FetchTiming {
    match &spec.input_kind {
        InputKind::Files { .. } => FetchTiming::OnDemand,
        InputKind::Tables { inputs, .. } => {
            let are_whole = inputs.iter().any(|table| table.kind.is_whole());
            match are_whole || !spec.partition_keys.is_empty() {
                true => FetchTiming::AtOnce,
                false => FetchTiming::AsTheyFit,
            }
        }
        InputKind::Void { .. } => FetchTiming::AtOnce,
    }
}

/// Waits for all objects that are downloaded without a request. When the job is then planned for a comparison
/// with an earlier run, the planner does not have to wait for downloads.
pub(super) fn wait_for(objects: &JobObjects, options: &NodeOptions, say: &mut dyn FnMut(&str)) {
    let mut reported = Instant::now();
    objects.wait(&|| options.cancel.reason().is_some(), &mut |objects, bytes| {
        if reported.elapsed() >= NOTICE_INTERVAL {
            reported = Instant::now();
            say(&format!("so far {objects} objects, {}", ByteSize(bytes).rounded()));
        }
    });
}

/// Uploads the results of a completed job, if the job names a store for them. `may_publish`: asks whether the caller still
/// leads the job. `None` if no other process can lead it.
///
/// # Errors
/// If the policy forbids the store, or if the upload fails.
pub fn upload_results(
    spec: &JobSpec,
    options: &NodeOptions,
    output: &Path,
    may_publish: Option<&dyn Fn() -> bool>,
    say: &mut dyn FnMut(&str),
) -> Result<(), NodeError> {
    let Some(address) = &spec.upload else { return Ok(()) };
    options.policy.check_stores(spec)?;
    let stop = || options.cancel.reason().is_some();
    let mut watch = Watch { stop: &stop, say };
    let stager = stager(spec, options, Path::new(""));
    Ok(stager.upload_folder(output, address, may_publish, &mut watch)?)
}

/// Opens the objects of a job in its [store](JobSpec::job_store), which is at an address.
///
/// # Errors
/// If the policy forbids the store, or if the address does not say enough to open it.
pub fn job_objects(
    spec: &JobSpec,
    address: &Address,
    options: &NodeOptions,
) -> Result<StoreObjects, NodeError> {
    options.policy.check_stores(spec)?;
    let below = format!("{}/", spec.name);
    Ok(stager(spec, options, Path::new("")).objects_at(address, &below)?)
}

/// The objects of another machine's job in its store, which is at this address. The job's settings are not known yet. The
/// caller has [checked](crate::spec::OperatorPolicy::check_job_store) that the policy allows the store.
///
/// # Errors
/// If the store cannot be opened.
pub fn objects_of_job(
    (name, tenant): (&str, &str),
    address: &Address,
    options: &NodeOptions,
) -> Result<StoreObjects, NodeError> {
    let stager = Stager {
        program: &options.program,
        cache: Path::new(""),
        os_sandbox: options.policy.sandbox(OsSandbox::BestEffort),
        datastores: &options.datastores,
        tenant,
        without_tables: Vec::new(),
        uploads: &[],
    };
    Ok(stager.objects_at(address, &format!("{name}/"))?)
}

pub(super) fn stager<'a>(
    spec: &'a JobSpec,
    options: &'a NodeOptions,
    cache: &'a Path,
) -> Stager<'a> {
    let refused = spec.inputs.iter().filter(|input| refuses_tables(spec, input));
    Stager {
        program: &options.program,
        cache,
        os_sandbox: spec.worker.os_sandbox,
        datastores: &options.datastores,
        tenant: &spec.settings.tenant,
        without_tables: refused.map(|input| input.name.clone()).collect(),
        uploads: &spec.text.uploads,
    }
}

fn cache(options: &NodeOptions) -> Result<PathBuf, StoreError> {
    let folder = objects_folder(&options.datastores, options.cache_dir.as_deref());
    folder.ok_or(StoreError::NoCache)
}

/// The folder for downloaded objects: the folder that the datastores file names, or a folder inside the
/// folder for compiled code. `None` if neither is known.
pub fn objects_folder(datastores: &Datastores, cache_dir: Option<&Path>) -> Option<PathBuf> {
    let named = datastores.cache_folder().map(ToOwned::to_owned);
    let default = || cache_dir.map(ToOwned::to_owned).or_else(Cache::default_folder);
    named.or_else(|| Some(default()?.join(OBJECTS_FOLDER)))
}
