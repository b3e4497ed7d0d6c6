//! Jobs that run the models of `tests/models`.

use crate::{TestJob, guest, onnxruntime, root};

/// A job of the guest `computes` with models of `tests/models`, e.g. `mlp` and `hostile/deep`. In the job,
/// each model is named as its file and has these settings, e.g. `backend: tract`. The input is the folder
/// `inputs`.
pub fn computing(settings: &str, models: &[String]) -> TestJob {
    let mut yaml = "inputs: {tensors: inputs}\nmini_batch_size: 1\nmodels:\n".to_owned();
    for model in models {
        let name = model.rsplit('/').next().unwrap_or(model);
        let path = root().join(format!("tests/models/{model}.onnx"));
        yaml.push_str(&format!("  {name}: {{path: {}, {settings}}}\n", path.display()));
    }
    let library = onnxruntime().display().to_string();
    TestJob::new(&guest("computes")).yaml(&yaml).env("SANDMILL_ONNXRUNTIME", &library)
}

/// The models in a folder of `tests/models`, sorted, as names for [`computing`].
pub fn models_in(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join("tests/models").join(folder)).unwrap();
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            let name = name.strip_suffix(".onnx")?;
            Some(if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") })
        })
        .collect();
    names.sort();
    names
}
