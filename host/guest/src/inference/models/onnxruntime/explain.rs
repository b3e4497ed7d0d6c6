//! Translates the library's errors.

use crate::inference::models::guard::caught;
use crate::inference::models::{InferenceError, NnErrorCode};
use crate::model::FailureKind;
use ort::ErrorCode as Theirs;
use std::path::Path;

/// The library's messages for an unknown operator, or an unsupported form of one.
const UNKNOWN_OPERATION: [&str; 3] =
    ["is not a registered function/op", "Could not find an implementation", "No Op registered for"];

/// Its messages if memory is short.
const NO_MEMORY: [&str; 3] =
    ["Failed to allocate memory for requested buffer", "std::bad_alloc", "out of memory"];

/// Its further messages if GPU memory is short.
const NO_DEVICE_MEMORY: [&str; 4] =
    ["CUDA failure 2:", "CUDA error 2:", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"];

/// The action that an error is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct LibraryAction<'a> {
    /// "load" or "run".
    pub(super) what: &'static str,
    /// The model's file, whose path the guest must not learn.
    pub(super) file: Option<&'a Path>,
    /// Whether it runs on a GPU.
    pub(super) gpu: bool,
}

impl LibraryAction<'_> {
    /// Performs the action. The `ort` crate panics on unexpected results of the library, which a model can
    /// cause.
    pub(super) fn guarded<T>(
        self,
        act: impl FnOnce() -> Result<T, OnnxRuntimeFailure>,
    ) -> Result<T, InferenceError> {
        match caught(act) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(OnnxRuntimeFailure::Ours(error))) => Err(error),
            Ok(Err(OnnxRuntimeFailure::Theirs(error))) => {
                Err(self.explain(error.code(), &error.to_string()))
            }
            Err(panic) => Err(self.explain(Theirs::GenericFailure, &panic.0)),
        }
    }

    fn explain(self, theirs: Theirs, text: &str) -> InferenceError {
        let says = |known: &[&str]| known.iter().any(|words| text.contains(words));
        let reported = self.describe(text);
        if self.gpu && (says(&NO_MEMORY) || says(&NO_DEVICE_MEMORY)) {
            return InferenceError::ends(FailureKind::DeviceOutOfMemory, reported);
        }
        if says(&NO_MEMORY) {
            return InferenceError::no_memory(&reported);
        }
        let code = match theirs {
            _ if says(&UNKNOWN_OPERATION) => NnErrorCode::UnsupportedOperation,
            Theirs::NotImplemented => NnErrorCode::UnsupportedOperation,
            Theirs::InvalidArgument => NnErrorCode::InvalidArgument,
            Theirs::InvalidProtobuf | Theirs::InvalidGraph | Theirs::NoModel => {
                NnErrorCode::InvalidEncoding
            }
            _ => NnErrorCode::RuntimeError,
        };
        InferenceError::refused(code, reported)
    }

    fn describe(self, text: &str) -> String {
        let mut text = text.trim().to_owned();
        if let Some(file) = self.file {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            text = text.replace(&*file.to_string_lossy(), &name);
            if let Some(folder) = file.parent().filter(|folder| folder.parent().is_some()) {
                text = text.replace(&*folder.to_string_lossy(), "the model's folder");
            }
        }
        format!("onnxruntime cannot {} it: {text}", self.what)
    }
}

/// An error of the library, or one of ours.
pub(super) enum OnnxRuntimeFailure {
    Theirs(ort::Error),
    Ours(InferenceError),
}

impl<R> From<ort::Error<R>> for OnnxRuntimeFailure
where
    ort::Error: From<ort::Error<R>>,
{
    fn from(error: ort::Error<R>) -> Self {
        Self::Theirs(error.into())
    }
}

impl From<InferenceError> for OnnxRuntimeFailure {
    fn from(error: InferenceError) -> Self {
        Self::Ours(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(theirs: Theirs, text: &str, gpu: bool) -> (Result<NnErrorCode, FailureKind>, String) {
        let file = Some(Path::new("/jobs/x/models/m/model.onnx"));
        let error = LibraryAction { what: "load", file, gpu }.explain(theirs, text);
        let code = match &error {
            InferenceError::Refused { code, .. } => Ok(*code),
            InferenceError::Ends { kind, .. } => Err(*kind),
        };
        (code, error.to_string())
    }

    #[test]
    fn errors_get_a_code_and_keep_their_text() {
        let full = "Failed to allocate memory for requested buffer of size 9";
        let cases = [
            (Theirs::InvalidProtobuf, "Protobuf parsing failed.", Ok(NnErrorCode::InvalidEncoding)),
            (Theirs::InvalidArgument, "Got invalid dimensions", Ok(NnErrorCode::InvalidArgument)),
            (
                Theirs::GenericFailure,
                "Fatal error: X(-1) is not a registered function/op",
                Ok(NnErrorCode::UnsupportedOperation),
            ),
            (Theirs::GenericFailure, "whatever", Ok(NnErrorCode::RuntimeError)),
        ];
        for (theirs, text, code) in cases {
            let expected = format!("onnxruntime cannot load it: {text}");
            assert_eq!(describe(theirs, text, false), (code, expected));
        }
        // The attempt ends; the guest cannot handle the error.
        let (code, text) = describe(Theirs::GenericFailure, full, false);
        assert_eq!(code, Err(FailureKind::OutOfMemory));
        assert!(text.contains("more memory than the worker may have") && text.ends_with(full));
        let gpu_full = Err(FailureKind::DeviceOutOfMemory);
        assert_eq!(describe(Theirs::GenericFailure, full, true).0, gpu_full);
        let cublas = "CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0";
        assert_eq!(describe(Theirs::GenericFailure, cublas, true).0, gpu_full);
    }

    #[test]
    fn errors_do_not_contain_host_paths() {
        let text = "Load model from /jobs/x/models/m/model.onnx failed: /jobs/x/models/m/w.bin";
        let (_, reported) = describe(Theirs::GenericFailure, text, false);
        assert_eq!(
            reported,
            "onnxruntime cannot load it: Load model from model.onnx failed: the model's \
             folder/w.bin"
        );
    }

    #[test]
    fn a_panic_is_an_error_with_its_text() {
        let doing = LibraryAction { what: "run", file: None, gpu: false };
        let error = doing.guarded::<()>(|| panic!("odd")).unwrap_err();
        assert_eq!(error.to_string(), "onnxruntime cannot run it: odd");
    }
}
