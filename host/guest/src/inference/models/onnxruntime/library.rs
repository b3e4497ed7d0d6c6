//! ONNX Runtime's library. A process opens at most one, and never closes it.

use super::cuda;
use super::session::OnnxRuntimeModel;
use crate::inference::models::error::LibraryError;
use crate::inference::models::vet::VettedModel;
use crate::inference::models::{
    BackendModel, InferenceError, LoadSettings, ModelSource, NO_TELEMETRY,
};
use libloading::Symbol;
use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::sys::{ORT_API_VERSION, OrtApiBase};
use std::env;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// ONNX Runtime's open library. Clones share it.
#[derive(Clone, Debug)]
pub(in crate::inference::models) struct Library {
    environment: Environment,
    version: String,
    has_cuda: bool,
}

/// The library of this process. ONNX Runtime supports only one environment in the life of a process, so the
/// environment must not be dropped.
static OPENED: Mutex<Option<(PathBuf, Library)>> = Mutex::new(None);

impl Library {
    /// Opens the library at an absolute path. The process calls this before it builds its wall. The
    /// library starts no thread, because this function fails unless [`NO_TELEMETRY`] is in the
    /// environment.
    ///
    /// # Errors
    /// If the file is not a usable library. The error is a message for the user.
    pub(in crate::inference::models) fn open(library: &Path) -> Result<Self, LibraryError> {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        match &*opened {
            Some((path, open)) if path == library => return Ok(open.clone()),
            Some((path, _)) => {
                return Err(LibraryError::OtherIsOpen { path: path.clone() });
            }
            None => {}
        }
        let (variable, value) = NO_TELEMETRY;
        if env::var_os(variable).is_none_or(|found| found != value) {
            return Err(LibraryError::Telemetry { variable, value });
        }
        let version = version_of(library)?;
        let environment = ort::init_from(library)?
            .with_name("sandmill")
            .with_telemetry(false)
            .build()
            .map_err(|source| LibraryError::NoStart { path: library.to_owned(), source })?;
        // The library also returns its failures as errors. If it logged them, a guest whose calls fail could
        // fill a log.
        environment.set_log_level(LogLevel::Fatal);
        let open = Self { environment, version, has_cuda: cuda::is_available() };
        *opened = Some((library.to_owned(), open.clone()));
        Ok(open)
    }

    /// The version, for example `1.31.1`.
    pub(in crate::inference::models) fn version(&self) -> &str {
        &self.version
    }

    /// Whether the library was built with CUDA. Its CUDA dependencies may still be missing.
    pub(in crate::inference::models) fn has_cuda(&self) -> bool {
        self.has_cuda
    }

    /// Loads the dependencies for using a GPU.
    ///
    /// # Errors
    /// If a dependency is missing. The error is a message for the user.
    pub(in crate::inference::models) fn try_cuda(&self) -> Result<(), ort::Error> {
        cuda::load(&self.environment)
    }

    /// Loads a model that has been checked.
    ///
    /// # Errors
    /// If the model is bad, or cannot run on the wanted device.
    pub(in crate::inference::models) fn load(
        &self,
        source: ModelSource<'_>,
        vetted: VettedModel,
        settings: &LoadSettings,
    ) -> Result<Box<dyn BackendModel>, InferenceError> {
        Ok(Box::new(OnnxRuntimeModel::load(&self.environment, source, vetted, settings)?))
    }
}

/// Reads the library's version, before any other of its functions runs.
fn version_of(path: &Path) -> Result<String, LibraryError> {
    let owned_path = || path.to_owned();
    // SAFETY: the library's initialisers are trusted, because the user, not the job file, chose the
    // library.
    let library = unsafe { libloading::Library::new(path) }
        .map_err(|source| LibraryError::NoLibrary { path: owned_path(), source })?;
    // SAFETY: the type is that of this function in ONNX Runtime's header.
    let entry: Symbol<'_, unsafe extern "C" fn() -> *const OrtApiBase> =
        unsafe { library.get(b"OrtGetApiBase") }
            .map_err(|_| LibraryError::NotOnnxRuntime { path: owned_path() })?;
    // SAFETY: the function has no parameters, and returns null or a table that is never freed.
    let Some(base) = (unsafe { entry().as_ref() }) else {
        return Err(LibraryError::NoInterface { path: owned_path() });
    };
    // SAFETY: the function returns a string that is never freed.
    let version = unsafe { CStr::from_ptr((base.GetVersionString)()) };
    let version = version.to_string_lossy().into_owned();
    // SAFETY: the function takes a number. It returns null if the library does not know this version.
    if unsafe { (base.GetApi)(ORT_API_VERSION) }.is_null() {
        return Err(LibraryError::TooOld { path: owned_path(), version });
    }
    // Do not close the library: we open it again soon, and closing it would undo its
    // initialisation.
    std::mem::forget(library);
    Ok(version)
}
