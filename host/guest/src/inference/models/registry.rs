//! The models of a worker: which exist, which backend runs each, and which are loaded.

use super::backends::{Backends, RequestedBackend};
use super::error::short;
use super::vet;
use super::{
    BackendModel, InferenceError, LoadSettings, ModelFacts, ModelSource, NnErrorCode, NotePlace,
    OwnedTensor, TensorView, inputs,
};
use crate::model::{
    Backend, ByteSize, DeviceChoice, FailureKind, FileStamp, InferenceNote, InferenceSettings,
    InferenceStats, InferenceWork, JobModel, Limits, count_u32,
};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Instant;

/// All models of a worker. A model of the job is loaded on its first use, and stays loaded as long as the
/// process lives. A model from bytes is dropped with its last handle.
pub struct LoadedModels {
    models: BTreeMap<String, JobModel>,
    settings: InferenceSettings,
    threads: u32,
    lease: Option<u32>,
    backends: Backends,
    /// Folders with libraries. The guest must not learn their paths.
    libraries: Vec<PathBuf>,
    loaded: Mutex<BTreeMap<String, LoadedModel>>,
    shared: Arc<SharedModels>,
}

/// State that all models of a worker share.
struct SharedModels {
    stats: Mutex<InferenceStats>,
    /// The total size of the loaded models.
    loaded_bytes: Mutex<u64>,
    /// The limit on `loaded_bytes`.
    limit: ByteSize,
    /// The file in which the worker records its current model call. Unset if the worker has no such file.
    note: OnceLock<NotePlace>,
}

/// A loaded model. Clones are handles to the same model.
#[derive(Clone)]
pub struct LoadedModel(Arc<LoadedInner>);

struct LoadedInner {
    facts: ModelFacts,
    loaded: Mutex<Box<dyn BackendModel>>,
    bytes: u64,
    /// The index among the job's models; `None` for a model from bytes.
    index: Option<u32>,
    shared: Arc<SharedModels>,
}

impl LoadedModels {
    /// Registers the job's models without reading them, and opens the libraries of backends. This starts no
    /// threads, so it can precede a wall that restricts threads. `lease` is the index of the worker's GPU;
    /// `workers` is the number of workers that share the machine's cores.
    pub fn open(
        models: Vec<JobModel>,
        settings: &InferenceSettings,
        lease: Option<u32>,
        workers: u32,
        limits: &Limits,
    ) -> Self {
        let may_load = !models.is_empty() || settings.allow_guest_models;
        Self {
            models: models.into_iter().map(|model| (model.name.clone(), model)).collect(),
            settings: settings.clone(),
            threads: match settings.threads {
                Some(threads) => threads.max(1),
                None if may_load => share_of_cores(workers).max(1),
                None => 1,
            },
            lease,
            backends: Backends::open(settings.onnxruntime.as_deref().filter(|_| may_load)),
            libraries: libraries(settings),
            loaded: Mutex::default(),
            shared: Arc::new(SharedModels {
                stats: Mutex::default(),
                loaded_bytes: Mutex::default(),
                limit: limits.models,
                note: OnceLock::new(),
            }),
        }
    }

    /// From now on, records each model call in this file ([`InferenceNote`]).
    pub fn note_in(&self, place: NotePlace) {
        // Ignore a second file: a process has only one.
        let _ = self.shared.note.set(place);
    }

    /// The names of the job's models, in alphabetical order.
    pub fn names(&self) -> Vec<String> {
        self.models.keys().cloned().collect()
    }

    /// Loads a model of the job.
    ///
    /// # Errors
    /// If the job has no model with that name, or the model cannot be loaded as the job requires.
    pub fn load(&self, name: &str) -> Result<LoadedModel, InferenceError> {
        let mut loaded = lock(&self.loaded);
        if let Some(model) = loaded.get(name) {
            return Ok(model.clone());
        }
        let model = self.models.get(name).ok_or_else(|| self.unknown_model(name))?;
        let index = self.models.keys().position(|known| known == name).map(count_u32);
        let requested = RequestedBackend {
            backend: model.backend,
            device: model.device,
            fallback: model.fallback,
            advice_without_gpu: "let it run on the CPU with fallback: cpu",
        };
        let path = model.host.join(&model.file);
        let mut files = Vec::new();
        let result = self.load_from(ModelSource::File(&path), index, &requested, &mut files);
        // If a file changed while it was read, report that first, whatever the result is.
        let result = check_unchanged(&path, model.stamp, "its file").and(result);
        let result = check_weights_unchanged(model, &path, &files).and(result);
        let loaded_model = result.map_err(|error| {
            let error = error.hiding(&model.host, "the model's folder");
            self.hiding_libraries(error).about(&format!("model {name:?}"))
        })?;
        loaded.insert(name.to_owned(), loaded_model.clone());
        Ok(loaded_model)
    }

    /// Loads a model from the guest's bytes, for the CPU or for the worker's GPU.
    ///
    /// # Errors
    /// If the job does not allow models from bytes, or the model cannot be loaded.
    pub fn load_bytes(&self, bytes: &[u8], gpu: bool) -> Result<LoadedModel, InferenceError> {
        if !self.settings.allow_guest_models {
            return Err(InferenceError::refused(
                NnErrorCode::Security,
                "models from bytes are off; load one of the job's models by name, or set \
                 inference.allow_guest_models: true in the job file",
            ));
        }
        let requested = RequestedBackend {
            backend: Backend::Auto,
            device: if gpu { DeviceChoice::Gpu } else { DeviceChoice::Cpu },
            fallback: false,
            advice_without_gpu: "load it for the CPU",
        };
        self.load_from(ModelSource::Bytes(bytes), None, &requested, &mut Vec::new())
            .map_err(|error| self.hiding_libraries(error).about("the model from bytes"))
    }

    /// The statistics since the last call.
    pub fn take_stats(&self) -> InferenceStats {
        std::mem::take(&mut *lock(&self.shared.stats))
    }

    /// Chooses a backend, and loads a model. `files` receives the paths of separate files with weights.
    fn load_from(
        &self,
        source: ModelSource<'_>,
        index: Option<u32>,
        requested: &RequestedBackend,
        files: &mut Vec<String>,
    ) -> Result<LoadedModel, InferenceError> {
        let choice = self.backends.choose(requested, self.lease)?;
        let _noted = self.shared.record(InferenceWork::Loading, index);
        let loaded_bytes = *lock(&self.shared.loaded_bytes);
        let settings = LoadSettings {
            threads: self.threads,
            gpu: choice.gpu,
            gpu_memory: self.settings.gpu_memory,
            fell_back: choice.fell_back,
            limit: self.shared.limit.0.saturating_sub(loaded_bytes),
            loaded_bytes,
        };
        let vetted = vet::read(source, settings.limit)
            .map_err(|error| self.shared.add_limit(error, loaded_bytes))?;
        files.clone_from(&vetted.separate_files);
        let bytes = vetted.bytes;
        let loaded = choice.engine.load(source, vetted, &settings)?;
        let facts = loaded.facts().clone();
        *lock(&self.shared.loaded_bytes) += bytes;
        let shared = Arc::clone(&self.shared);
        Ok(LoadedModel(Arc::new(LoadedInner {
            facts,
            loaded: Mutex::new(loaded),
            bytes,
            index,
            shared,
        })))
    }

    fn hiding_libraries(&self, error: InferenceError) -> InferenceError {
        let hide = |error: InferenceError, folder: &PathBuf| {
            error.hiding(folder, "the folder of a library")
        };
        self.libraries.iter().fold(error, hide)
    }

    fn unknown_model(&self, name: &str) -> InferenceError {
        let name = short(name);
        let message = if self.models.is_empty() {
            format!("there is no model {name:?}: the job file has no models")
        } else {
            let names: Vec<String> = self.models.keys().map(|name| format!("{name:?}")).collect();
            format!("there is no model {name:?}; the job's models are {}", names.join(", "))
        };
        InferenceError::refused(NnErrorCode::NotFound, message)
    }
}

impl LoadedModel {
    /// What is known about the model.
    pub fn facts(&self) -> &ModelFacts {
        &self.0.facts
    }

    /// Computes the outputs; other callers of the same model wait. The outputs are in the model's order.
    /// Outputs whose types `wasi:nn` does not have are left out.
    ///
    /// # Errors
    /// If an input does not fit the model, or the backend fails.
    pub fn run(&self, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, InferenceError> {
        let LoadedInner { facts, loaded, index, shared, .. } = &*self.0;
        let inputs = inputs::check(facts, inputs)?;
        let mut loaded = lock(loaded);
        let start = Instant::now();
        let noted = shared.record(InferenceWork::Computing, *index);
        let result = loaded.run(&inputs);
        drop(noted);
        let seconds = start.elapsed().as_secs_f64();
        let mut stats = lock(&shared.stats);
        stats.calls += 1;
        stats.seconds += seconds;
        stats.bytes_in += inputs.iter().map(|input| input.bytes.len() as u64).sum::<u64>();
        let outputs = result.iter().flatten();
        stats.bytes_out += outputs.map(|output| output.bytes.len() as u64).sum::<u64>();
        // `max` keeps the GPU if any model ran on a GPU, because the CPU comes first in the order
        // of devices.
        stats.device = stats.device.max(Some(facts.device));
        stats.fell_back |= facts.fell_back;
        stats.backends = stats.backends.and(facts.backend);
        result
    }
}

/// Removes the note of a model call when it is dropped.
struct Noted<'a>(Option<&'a NotePlace>);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.write(None);
        }
    }
}

impl SharedModels {
    /// Records a model call until the result is dropped.
    fn record(&self, work: InferenceWork, model: Option<u32>) -> Noted<'_> {
        let place = self.note.get();
        if let Some(place) = place {
            place.write(Some(InferenceNote::now(work, model)));
        }
        Noted(place)
    }

    /// Adds the limit to an error about a model that is too large.
    fn add_limit(&self, error: InferenceError, loaded_bytes: u64) -> InferenceError {
        match error {
            InferenceError::Refused { code: NnErrorCode::TooLarge, message } => {
                let others = match loaded_bytes {
                    0 => String::new(),
                    bytes => format!(", of which other models take {}", ByteSize(bytes).rounded()),
                };
                let limit = self.limit;
                InferenceError::refused(
                    NnErrorCode::TooLarge,
                    format!("{message}; limits.models is {limit}{others}"),
                )
            }
            error => error,
        }
    }
}

impl Drop for LoadedInner {
    fn drop(&mut self) {
        let mut loaded_bytes = lock(&self.shared.loaded_bytes);
        *loaded_bytes = loaded_bytes.saturating_sub(self.bytes);
    }
}

/// Checks that a file has not changed since the job began. If workers used different models, their rows would
/// be inconsistent.
fn check_unchanged(
    path: &Path,
    stamp: Option<FileStamp>,
    what: &str,
) -> Result<(), InferenceError> {
    // If the file no longer exists, loading it fails anyway.
    let now = path.metadata().ok().as_ref().map(FileStamp::from_metadata);
    if stamp.is_none() || now.is_none() || now == stamp {
        return Ok(());
    }
    let message = format!(
        "{what} changed after the job began, so that workers would compute with different models: do \
         not write to it while a job runs, and start the job again"
    );
    Err(InferenceError::ends(FailureKind::HostFault, message))
}

/// Checks that the separate files with the model's weights have not changed since the job began. Also refuses
/// a file that did not exist then, because the leader judged the model without that file.
fn check_weights_unchanged(
    model: &JobModel,
    path: &Path,
    files: &[String],
) -> Result<(), InferenceError> {
    let Some(beside) = &model.beside else { return Ok(()) };
    let folder = path.parent().unwrap_or(&model.host);
    for file in files {
        let what = format!("the file with its weights, {file:?},");
        let weights_path = folder.join(file);
        // `components` removes `./`.
        let relative: PathBuf =
            weights_path.strip_prefix(&model.host).unwrap_or(&weights_path).components().collect();
        let known = beside.iter().find(|(name, _)| Path::new(name) == relative);
        let Some((_, stamp)) = known else {
            let message = format!(
                "{what} did not exist when the job began: do not write to a model's folder while a job \
                 runs, and start the job again"
            );
            return Err(InferenceError::ends(FailureKind::HostFault, message));
        };
        check_unchanged(&weights_path, Some(*stamp), &what)?;
    }
    Ok(())
}

/// The folders of backend libraries, nested folders first.
fn libraries(settings: &InferenceSettings) -> Vec<PathBuf> {
    let library = settings.onnxruntime.as_deref().and_then(Path::parent).map(Path::to_owned);
    let mut folders: Vec<PathBuf> = settings.cuda.iter().cloned().chain(library).collect();
    folders.sort();
    folders.reverse();
    folders
}

/// The maximum number of threads. Their stacks count towards the worker's memory, and ONNX Runtime waits
/// forever for a thread that could not be started.
const MAX_THREADS: u32 = 64;

/// The number of threads for a worker if `workers` share the machine evenly.
fn share_of_cores(workers: u32) -> u32 {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    (u32::try_from(cores).unwrap_or(u32::MAX) / workers.max(1)).min(MAX_THREADS)
}

/// Locks a mutex, even if a panic has poisoned it. A model that can no longer compute will report that.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
