//! Finds and tries the inference libraries of a job before the job begins.

use super::error::NodeError;
use super::model_error::ModelError;
use super::options::NodeOptions;
use crate::gpu::library_folders;
use crate::inference::{ModelVerdict, Probe, bytes_below};
use crate::model::Backend;
use crate::spec::{JobSpec, ModelSpec};
use std::path::PathBuf;

/// The libraries that were found besides tract.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FoundBackends {
    /// The path of ONNX Runtime's library, and its version if known. `None` if the job uses only tract.
    pub(super) onnxruntime: Option<(PathBuf, Option<String>)>,
    /// A notice for the user.
    pub(super) notice: Option<String>,
}

/// Finds ONNX Runtime's library for a job that may use it. A library that cannot be used is an error only if
/// a model of the job must run on ONNX Runtime, or if the command line names the library. Otherwise tract is
/// used instead, and a notice says so.
pub(super) fn find_onnxruntime(
    spec: &JobSpec,
    options: &NodeOptions,
) -> Result<FoundBackends, NodeError> {
    let must_use = spec.models.iter().find(|model| model.backend == Backend::OnnxRuntime);
    let may_use = must_use.is_some()
        || spec.inference.allow_guest_models
        || spec.models.iter().any(|model| model.backend == Backend::Auto);
    let mut found = FoundBackends::default();
    if !may_use {
        return Ok(found);
    }
    match (&options.onnxruntime, must_use) {
        (None, None) => {}
        (None, Some(model)) => {
            return Err(NodeError::Backend(format!(
                "models.{}.backend is onnxruntime, and its library was not found: run \"pip install \
                 onnxruntime\" in the active virtual environment, or name its library with \
                 --onnxruntime PATH or SANDMILL_ONNXRUNTIME=PATH; or set the backend to auto",
                model.name
            )));
        }
        (Some(named), must_use) => match probe(spec, options).named(named) {
            Ok(usable) => found.onnxruntime = Some(usable),
            Err(why) if must_use.is_some() || named.by_option() => {
                let model = must_use.map(|model| {
                    format!("models.{}.backend is onnxruntime, which cannot be used: ", model.name)
                });
                return Err(NodeError::Backend(model.unwrap_or_default() + &why.to_string()));
            }
            Err(why) => found.notice = Some(format!("tract is used instead of onnxruntime: {why}")),
        },
    }
    Ok(found)
}

/// Refuses models that exceed `limits.models` together with their external weights. Only a
/// sandboxed process may find out which files hold the weights. We start one only if all files of
/// the model's folder together exceed the limit. Returns notices for the user.
pub(super) fn weigh_models(
    spec: &JobSpec,
    models: &[ModelSpec],
    options: &NodeOptions,
) -> Result<Vec<String>, NodeError> {
    let limit = spec.limits.models;
    let mut notices = Vec::new();
    for model in models {
        let Some(folder) = &model.folder else { continue };
        if bytes_below(folder, limit.0.saturating_add(1)) <= limit.0 {
            continue;
        }
        let name = model.name.clone();
        match probe(spec, options).model_bytes(folder, &model.file) {
            Ok(bytes) => {
                if let Some(why) = model.exceeds(bytes, limit) {
                    return Err(ModelError::TooLarge { name, why }.into());
                }
            }
            Err(why) => notices.push(format!(
                "models.{name}: its folder holds more than limits.models ({limit}). Workers refuse the model \
                 if its weights alone exceed the limit; which files hold the weights is not known: {why}"
            )),
        }
    }
    Ok(notices)
}

/// Checks each model before workers load it. Fails if a model has to run on tract and cannot. Returns notices
/// for the user about outputs that the entry script does not get. If a model cannot be checked, workers
/// report the reason later.
pub(super) fn judge_models(
    spec: &JobSpec,
    models: &[ModelSpec],
    options: &NodeOptions,
    has_onnxruntime: bool,
) -> Result<Vec<String>, NodeError> {
    let limit = spec.limits.models.0;
    let mut notices = Vec::new();
    for model in models {
        let judged = probe(spec, options).judge(model.folder.as_deref(), &model.file, limit);
        let Ok(ModelVerdict { not_by_tract, left_out }) = judged else { continue };
        let name = model.name.clone();
        let by_tract = match model.backend {
            Backend::Tract => true,
            Backend::Auto => !has_onnxruntime,
            Backend::OnnxRuntime => false,
        };
        if by_tract && let Some(why) = not_by_tract {
            return Err(ModelError::Refused { name, why }.into());
        }
        notices.extend(
            left_out.into_iter().map(|output| format!("model {name}: its output {output}")),
        );
    }
    Ok(notices)
}

/// The process that tries the libraries for this job's models.
pub(super) fn probe(spec: &JobSpec, options: &NodeOptions) -> Probe {
    let program = options.program.clone();
    let os_sandbox = spec.worker.os_sandbox;
    Probe { program, os_sandbox, cuda: cuda_folders(options) }
}

/// The folders of CUDA's libraries, including those that were installed with ONNX Runtime. Both backends use
/// them.
pub(super) fn cuda_folders(options: &NodeOptions) -> Vec<PathBuf> {
    let library = options.onnxruntime.as_ref().and_then(|named| named.find().ok());
    library_folders(library.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inference::NamedLibrary;
    use insta::assert_snapshot;
    use std::path::Path;

    /// The notice (`Ok`) or the error (`Err`) for a job that has a model for this backend.
    fn describe(backend: Backend, named: Option<NamedLibrary>) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        for name in ["entry.wasm", "a.txt"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let job = dir.path().join("job.yaml");
        std::fs::write(&job, "entry_script: entry.wasm\ninputs: {texts: a.txt}\n").unwrap();
        let mut spec = crate::spec::load_plain(&job, &[]).unwrap();
        spec.models.push(ModelSpec { name: "digits".to_owned(), backend, ..ModelSpec::sample() });
        let options =
            NodeOptions { onnxruntime: named, ..NodeOptions::for_program("/nonexistent") };
        let found = find_onnxruntime(&spec, &options).map_err(|error| error.to_string())?;
        assert_eq!(found.onnxruntime, None);
        Ok(found.notice.unwrap_or_default())
    }

    fn gone(by: &'static str) -> Option<NamedLibrary> {
        Some(NamedLibrary { by, path: "/gone".into() })
    }

    #[test]
    fn a_job_that_needs_onnxruntime_fails_without_it() {
        let needs = |named| describe(Backend::OnnxRuntime, named).unwrap_err();
        assert_snapshot!(needs(None), @r#"models.digits.backend is onnxruntime, and its library was not found: run "pip install onnxruntime" in the active virtual environment, or name its library with --onnxruntime PATH or SANDMILL_ONNXRUNTIME=PATH; or set the backend to auto"#);
        assert_snapshot!(needs(gone("ORT_DYLIB_PATH")), @"models.digits.backend is onnxruntime, which cannot be used: ORT_DYLIB_PATH names /gone: No such file or directory (os error 2)");
        // The user named the library for this job.
        let error =
            describe(Backend::Auto, NamedLibrary::given(Some(Path::new("/gone")))).unwrap_err();
        assert_snapshot!(error, @"--onnxruntime names /gone: No such file or directory (os error 2)");
    }

    #[test]
    fn tract_replaces_a_missing_onnxruntime() {
        assert_eq!(describe(Backend::Auto, None), Ok(String::new()));
        assert_eq!(describe(Backend::Tract, gone("ORT_DYLIB_PATH")), Ok(String::new()));
        let notice = describe(Backend::Auto, gone("SANDMILL_ONNXRUNTIME")).unwrap();
        assert_snapshot!(notice, @"tract is used instead of onnxruntime: SANDMILL_ONNXRUNTIME names /gone: No such file or directory (os error 2)");
    }
}
