//! The library itself. It is there once in a process, and then for good.

use super::session::Model;
use crate::inference::vet::Vetted;
use crate::inference::{InferenceError, Loaded, ModelSource, Wanted};
use libloading::Symbol;
use ort::environment::Environment;
use ort::ep::ExecutionProvider as _;
use ort::logging::LogLevel;
use ort::session::Session;
use ort::sys::{ORT_API_VERSION, OrtApiBase};
use std::env;
use std::error::Error as _;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What keeps the library from telling its makers of each start, on a thread of its own. It is read when
/// the library starts, so that it must be in the environment of the process.
pub const NO_TELEMETRY: (&str, &str) = ("ORT_DISABLE_TELEMETRY", "1");

/// ONNX Runtime's library, open. Clones are the same one.
#[derive(Clone, Debug)]
pub(in crate::inference) struct Library {
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
    pub(in crate::inference) fn open(library: &Path) -> Result<Self, String> {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        match &*opened {
            Some((path, open)) if path == library => return Ok(open.clone()),
            Some((path, _)) => {
                return Err(format!(
                    "{} is open in this process, which can hold one ONNX Runtime only",
                    path.display()
                ));
            }
            None => {}
        }
        let (variable, value) = NO_TELEMETRY;
        if env::var_os(variable).is_none_or(|found| found != value) {
            return Err(format!(
                "it would send telemetry from a thread outside of the wall: {variable}={value} must \
                 be in the environment of the process that opens it"
            ));
        }
        let version = version_of(library)?;
        let environment = ort::init_from(library)
            .map_err(|error| error.to_string())?
            .with_name("sandmill")
            .with_telemetry(false)
            .build()
            .map_err(|error| format!("{}: it does not start: {error}", library.display()))?;
        // What fails is told as an error. A guest that has calls fail must not fill a log besides.
        environment.set_log_level(LogLevel::Fatal);
        let cuda = ort::ep::CUDA::is_available().unwrap_or(false);
        let open = Self { environment, version, cuda };
        *opened = Some((library.to_owned(), open.clone()));
        Ok(open)
    }

    /// As in `1.31.1`.
    pub(in crate::inference) fn version(&self) -> &str {
        &self.version
    }

    /// Whether it was built to use NVIDIA's GPUs. What it needs for that may be missing all the same.
    pub(in crate::inference) fn has_cuda(&self) -> bool {
        self.cuda
    }

    /// Loads what it needs to use a GPU.
    ///
    /// # Errors
    /// For people: what of it is missing.
    pub(in crate::inference) fn try_cuda(&self) -> Result<(), String> {
        let mut builder = Session::builder(&self.environment).map_err(|error| error.to_string())?;
        ort::ep::CUDA::default().register(&mut builder).map_err(|error| error.to_string())
    }

    /// Loads a model that was looked at.
    ///
    /// # Errors
    /// What is wrong with it, or why it cannot run where it is wanted.
    pub(in crate::inference) fn load(
        &self,
        source: ModelSource<'_>,
        vetted: Vetted,
        wanted: &Wanted,
    ) -> Result<Box<dyn Loaded>, InferenceError> {
        Ok(Box::new(Model::load(&self.environment, source, vetted, wanted)?))
    }
}

/// What the loader says, which is not always in the error itself.
fn reason(error: &libloading::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Looks at the library's version, before anything else of it runs.
fn version_of(path: &Path) -> Result<String, String> {
    let at = path.display();
    // SAFETY: what the library runs when it is loaded is trusted: the operator named it.
    let library = unsafe { libloading::Library::new(path) }
        .map_err(|error| format!("{at} cannot be opened as a library: {}", reason(&error)))?;
    // SAFETY: the type is that of the function of this name in ONNX Runtime's header.
    let entry: Symbol<'_, unsafe extern "C" fn() -> *const OrtApiBase> =
        unsafe { library.get(b"OrtGetApiBase") }
            .map_err(|_| format!("{at} is a library, but not ONNX Runtime's"))?;
    // SAFETY: it takes nothing and returns a table that is always there, or null.
    let Some(base) = (unsafe { entry().as_ref() }) else {
        return Err(format!("{at} does not tell its interface"));
    };
    // SAFETY: returns a text that is always there.
    let version = unsafe { CStr::from_ptr((base.GetVersionString)()) };
    let version = version.to_string_lossy().into_owned();
    // SAFETY: takes a number; null if the library is too old to know it.
    if unsafe { (base.GetApi)(ORT_API_VERSION) }.is_null() {
        return Err(format!(
            "{at} is ONNX Runtime {version}; needed is 1.{ORT_API_VERSION} or newer"
        ));
    }
    // It is opened again in a moment, and closing it would undo its start.
    std::mem::forget(library);
    Ok(version)
}
