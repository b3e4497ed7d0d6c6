//! Translates the library's errors.

use crate::inference::models::guard::catch_panic;
use crate::inference::models::{InferenceError, NnErrorCode};
use crate::model::FailureKind;
use ort::ErrorCode as OrtCode;
use std::path::Path;

/// The library's messages for an unknown operator, or an unsupported form of one.
const UNKNOWN_OPERATION: [&str; 3] =
    ["is not a registered function/op", "Could not find an implementation", "No Op registered for"];

/// The library's messages if memory is short.
const NO_MEMORY: [&str; 3] =
    ["Failed to allocate memory for requested buffer", "std::bad_alloc", "out of memory"];

/// The library's further messages if GPU memory is short. 2 is `cudaErrorMemoryAllocation`.
const NO_DEVICE_MEMORY: [&str; 4] =
    ["CUDA failure 2:", "CUDA error 2:", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"];

/// The action that an error is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct LibraryAction<'a> {
    /// "load" or "run".
    pub(super) verb: &'static str,
    /// The model's file, whose path the guest must not learn.
    pub(super) file: Option<&'a Path>,
    /// Whether the model runs on a GPU.
    pub(super) gpu: bool,
}

impl LibraryAction<'_> {
    /// Performs the action. The `ort` crate panics on unexpected results of the library, which a model can
    /// cause.
    pub(super) fn guarded<T>(
        self,
        act: impl FnOnce() -> Result<T, OnnxRuntimeFailure>,
    ) -> Result<T, InferenceError> {
        match catch_panic(act) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(OnnxRuntimeFailure::Refused(error))) => Err(error),
            Ok(Err(OnnxRuntimeFailure::Library(error))) => {
                Err(self.explain(error.code(), &error.to_string()))
            }
            Err(panic) => Err(self.explain(OrtCode::GenericFailure, &panic.0)),
        }
    }

    /// Turns an error of the library into ours.
    fn explain(self, ort_code: OrtCode, text: &str) -> InferenceError {
        let mentions = |known: &[&str]| known.iter().any(|words| text.contains(words));
        let reported = self.describe(text);
        if self.gpu && (mentions(&NO_MEMORY) || mentions(&NO_DEVICE_MEMORY)) {
            return InferenceError::ends(FailureKind::DeviceOutOfMemory, reported);
        }
        if mentions(&NO_MEMORY) {
            return InferenceError::no_memory(&reported);
        }
        let code = match ort_code {
            _ if mentions(&UNKNOWN_OPERATION) => NnErrorCode::UnsupportedOperation,
            OrtCode::NotImplemented => NnErrorCode::UnsupportedOperation,
            OrtCode::InvalidArgument => NnErrorCode::InvalidArgument,
            OrtCode::InvalidProtobuf | OrtCode::InvalidGraph | OrtCode::NoModel => {
                NnErrorCode::InvalidEncoding
            }
            _ => NnErrorCode::RuntimeError,
        };
        InferenceError::refused(code, reported)
    }

    /// The message without paths of the host.
    fn describe(self, text: &str) -> String {
        let mut text = text.trim().to_owned();
        if let Some(file) = self.file {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            text = text.replace(&*file.to_string_lossy(), &name);
            if let Some(folder) = file.parent().filter(|folder| folder.parent().is_some()) {
                text = text.replace(&*folder.to_string_lossy(), "the model's folder");
            }
        }
        format!("onnxruntime cannot {} it: {text}", self.verb)
    }
}

/// An error of the library, or a refusal of Sandmill.
pub(super) enum OnnxRuntimeFailure {
    Library(ort::Error),
    Refused(InferenceError),
}

impl<R> From<ort::Error<R>> for OnnxRuntimeFailure
where
    ort::Error: From<ort::Error<R>>,
{
    fn from(error: ort::Error<R>) -> Self {
        Self::Library(error.into())
    }
}

impl From<InferenceError> for OnnxRuntimeFailure {
    fn from(error: InferenceError) -> Self {
        Self::Refused(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(
        ort_code: OrtCode,
        text: &str,
        gpu: bool,
    ) -> (Result<NnErrorCode, FailureKind>, String) {
        let file = Some(Path::new("/jobs/x/models/m/model.onnx"));
        let error = LibraryAction { verb: "load", file, gpu }.explain(ort_code, text);
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
            (
                OrtCode::InvalidProtobuf,
                "Protobuf parsing failed.",
                Ok(NnErrorCode::InvalidEncoding),
            ),
            (OrtCode::InvalidArgument, "Got invalid dimensions", Ok(NnErrorCode::InvalidArgument)),
            (
                OrtCode::GenericFailure,
                "Fatal error: X(-1) is not a registered function/op",
                Ok(NnErrorCode::UnsupportedOperation),
            ),
            (OrtCode::GenericFailure, "whatever", Ok(NnErrorCode::RuntimeError)),
        ];
        for (ort_code, text, code) in cases {
            let expected = format!("onnxruntime cannot load it: {text}");
            assert_eq!(describe(ort_code, text, false), (code, expected));
        }
        // The attempt ends; the guest cannot handle the error.
        let (code, text) = describe(OrtCode::GenericFailure, full, false);
        assert_eq!(code, Err(FailureKind::OutOfMemory));
        assert!(text.contains("more memory than the worker may have") && text.ends_with(full));
        let gpu_full = Err(FailureKind::DeviceOutOfMemory);
        assert_eq!(describe(OrtCode::GenericFailure, full, true).0, gpu_full);
        let cublas = "CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0";
        assert_eq!(describe(OrtCode::GenericFailure, cublas, true).0, gpu_full);
    }

    #[test]
    fn errors_do_not_contain_host_paths() {
        let text = "Load model from /jobs/x/models/m/model.onnx failed: /jobs/x/models/m/w.bin";
        let (_, reported) = describe(OrtCode::GenericFailure, text, false);
        assert_eq!(
            reported,
            "onnxruntime cannot load it: Load model from model.onnx failed: the model's \
             folder/w.bin"
        );
    }

    #[test]
    fn a_panic_is_an_error_with_its_text() {
        let action = LibraryAction { verb: "run", file: None, gpu: false };
        let error = action.guarded::<()>(|| panic!("odd")).unwrap_err();
        assert_eq!(error.to_string(), "onnxruntime cannot run it: odd");
    }
}
