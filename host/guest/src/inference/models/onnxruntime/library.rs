//! The library itself. It is there once in a process, and then for good.

use super::cuda;
use super::session::Model;
use crate::inference::models::error::LibraryError;
use crate::inference::models::vet::Vetted;
use crate::inference::models::{InferenceError, Loaded, ModelSource, NO_TELEMETRY, Wanted};
use libloading::Symbol;
use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::sys::{ORT_API_VERSION, OrtApiBase};
use std::env;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// ONNX Runtime's library, open. Clones are the same one.
#[derive(Clone, Debug)]
pub(in crate::inference::models) struct Library {
    environment: Environment,
    version: String,
    cuda: bool,
}

/// The library of this process. It bears one environment for as long as the process lives, so that it
/// must not be given back before.
static OPENED: Mutex<Option<(PathBuf, Library)>> = Mutex::new(None);

impl Library {
    /// Opens the library, an absolute path. Starts no thread, as long as [`NO_TELEMETRY`] is in the
    /// environment, without which this fails. To be called before the process's wall is built.
    ///
    /// # Errors
    /// For people: what is wrong with the file.
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
        // What fails is told as an error. A guest that has calls fail must not fill a log besides.
        environment.set_log_level(LogLevel::Fatal);
        let open = Self { environment, version, cuda: cuda::is_there() };
        *opened = Some((library.to_owned(), open.clone()));
        Ok(open)
    }

    /// As in `1.31.1`.
    pub(in crate::inference::models) fn version(&self) -> &str {
        &self.version
    }

    /// Whether it was built to use NVIDIA's GPUs. What it needs for that may be missing all the same.
    pub(in crate::inference::models) fn has_cuda(&self) -> bool {
        self.cuda
    }

    /// Loads what it needs to use a GPU.
    ///
    /// # Errors
    /// For people: what of it is missing.
    pub(in crate::inference::models) fn try_cuda(&self) -> Result<(), ort::Error> {
        cuda::load(&self.environment)
    }

    /// Loads a model that was looked at.
    ///
    /// # Errors
    /// What is wrong with it, or why it cannot run where it is wanted.
    pub(in crate::inference::models) fn load(
        &self,
        source: ModelSource<'_>,
        vetted: Vetted,
        wanted: &Wanted,
    ) -> Result<Box<dyn Loaded>, InferenceError> {
        Ok(Box::new(Model::load(&self.environment, source, vetted, wanted)?))
    }
}

/// Looks at the library's version, before anything else of it runs.
fn version_of(path: &Path) -> Result<String, LibraryError> {
    let at = || path.to_owned();
    // SAFETY: what the library runs when it is loaded is trusted: the operator named it.
    let library = unsafe { libloading::Library::new(path) }
        .map_err(|source| LibraryError::NoLibrary { path: at(), source })?;
    // SAFETY: the type is that of the function of this name in ONNX Runtime's header.
    let entry: Symbol<'_, unsafe extern "C" fn() -> *const OrtApiBase> =
        unsafe { library.get(b"OrtGetApiBase") }
            .map_err(|_| LibraryError::NotOnnxRuntime { path: at() })?;
    // SAFETY: it takes nothing and returns a table that is always there, or null.
    let Some(base) = (unsafe { entry().as_ref() }) else {
        return Err(LibraryError::NoInterface { path: at() });
    };
    // SAFETY: returns a text that is always there.
    let version = unsafe { CStr::from_ptr((base.GetVersionString)()) };
    let version = version.to_string_lossy().into_owned();
    // SAFETY: takes a number; null if the library is too old to know it.
    if unsafe { (base.GetApi)(ORT_API_VERSION) }.is_null() {
        return Err(LibraryError::TooOld { path: at(), version });
    }
    // It is opened again in a moment, and closing it would undo its start.
    std::mem::forget(library);
    Ok(version)
}
