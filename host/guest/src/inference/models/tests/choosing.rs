//! Which models exist, and which backend and device they get.

use super::*;
use crate::inference::models::samples::is_alone;
use crate::inference::models::samples::{layer, model, node, one, port, trees};
use crate::model::{ByteSize, Device, FileStamp};
use tract_onnx::pb::tensor_proto::DataType;

fn open(models: Vec<JobModel>, lease: Option<u32>) -> LoadedModels {
    LoadedModels::open(models, &InferenceSettings::default(), lease, 2, &Limits::default())
}

#[test]
fn models_of_the_job_are_loaded_once() {
    let (folder, model) = named(&bytes(&layer()));
    let models = open(vec![JobModel { name: "other".to_owned(), ..model.clone() }, model], None);
    assert_eq!(models.names(), ["m", "other"]);
    models.load("m").expect("it loads");
    fs::remove_file(folder.path().join("model.onnx")).expect("the file goes");
    let model = models.load("m").expect("it is still there");
    run_x(&model, &[1, 2], &[0.0; 2]).expect("it runs");
    assert_eq!(
        describe(models.load("other")),
        "RuntimeError: model \"other\": the model's folder/model.onnx cannot be read: No such file or directory \
         (os error 2)"
    );
}

/// A worker that starts or loads late must not use another model than the other workers.
#[test]
fn a_model_that_changed_since_the_job_began_is_noticed() {
    let (folder, model) = named(&bytes(&layer()));
    let path = folder.path().join("model.onnx");
    let stamp = Some(FileStamp::from_metadata(&path.metadata().expect("it is there")));
    let models = || vec![JobModel { stamp, ..model.clone() }];
    let loaded = open(models(), None);
    loaded.load("m").expect("nothing changed");
    // A changed file is noticed, whether it is a valid model or not.
    for text in [bytes(&trees(Vec::new())), b"none".to_vec()] {
        fs::write(&path, text).expect("it changes");
        assert_eq!(
            describe(open(models(), None).load("m")),
            "ends, host_fault: model \"m\": its file changed after the job began, so that workers would \
             compute with different models: do not write to it while a job runs, and start the job again"
        );
    }
    loaded.load("m").expect("it is in memory");
}

/// The guest must not learn what is installed on the machine, or where.
#[test]
fn errors_do_not_contain_library_paths() {
    if !is_alone("inference::models::tests::choosing::errors_do_not_contain_library_paths") {
        return;
    }
    let (folder, model) = named(&bytes(&layer()));
    let library = folder.path().join("libonnxruntime.so.1");
    fs::write(&library, "none").expect("a file");
    let settings = InferenceSettings { onnxruntime: Some(library), ..InferenceSettings::default() };
    let models = LoadedModels::open(
        vec![JobModel { host: "/gone".into(), ..model }],
        &settings,
        None,
        1,
        &Limits::default(),
    );
    let text = describe(models.load("m"));
    assert!(text.contains("the folder of a library/libonnxruntime.so.1"), "{text}");
    assert!(!text.contains(folder.path().to_str().expect("UTF-8")), "{text}");
}

#[test]
fn only_models_of_the_job_are_found() {
    let (_folder, model) = named(&bytes(&layer()));
    assert_eq!(
        describe(open(vec![model], None).load("../m")),
        r#"NotFound: there is no model "../m"; the job's models are "m""#
    );
    assert_eq!(
        describe(open(Vec::new(), None).load("m")),
        r#"NotFound: there is no model "m": the job file has no models"#
    );
}

#[test]
fn models_from_bytes_are_off_unless_the_job_wants_them() {
    assert_eq!(
        describe(open(Vec::new(), None).load_bytes(&bytes(&layer()), false)),
        "Security: models from bytes are off; load one of the job's models by name, or set \
         inference.allow_guest_models: true in the job file"
    );
}

#[test]
fn a_model_for_a_gpu_needs_a_lease() {
    let (_folder, model) = named(&bytes(&layer()));
    let gpu = JobModel { device: DeviceChoice::Gpu, ..model };
    assert_eq!(
        describe(open(vec![gpu.clone()], None).load("m")),
        "Security: model \"m\": it must run on a GPU, and no GPU is leased to this worker; give the job a \
         GPU for each worker (gpus: N or --gpus N), or let it run on the CPU with fallback: cpu"
    );
    assert_eq!(
        describe(any_models().load_bytes(&bytes(&layer()), true)),
        "Security: the model from bytes: it must run on a GPU, and no GPU is leased to this worker; give \
         the job a GPU for each worker (gpus: N or --gpus N), or load it for the CPU"
    );

    let models = open(vec![JobModel { fallback: true, ..gpu }], None);
    let model = models.load("m").expect("it falls back");
    assert_eq!((model.facts().device, model.facts().fell_back), (Device::Cpu, true));
    run_x(&model, &[1, 2], &[0.0; 2]).expect("it runs");
    let stats = models.take_stats();
    assert_eq!((stats.device, stats.fell_back), (Some(Device::Cpu), true));
}

/// Simulates a worker with a GPU: the worker has a lease, but no backend can use the GPU.
#[test]
fn errors_explain_why_a_leased_gpu_is_unusable() {
    if crate::inference::models::tract_cuda::check().is_ok() {
        eprintln!("skipped: there is a GPU here");
        return;
    }
    let (_folder, model) = named(&bytes(&layer()));
    let gpu = JobModel { device: DeviceChoice::Gpu, ..model.clone() };
    let text = describe(open(vec![gpu.clone()], Some(3)).load("m"));
    let begin = "UnsupportedOperation: model \"m\": no backend can use GPU 3; let it run on the CPU \
                 with fallback: cpu, or repair a backend: ONNX Runtime is not available (its library was not found";
    assert!(text.starts_with(begin), "{text}");
    assert!(text.contains("; tract cannot use CUDA ("), "{text}");

    let fell_back = |model| {
        let model = open(vec![model], Some(3)).load("m").expect("it runs on the CPU");
        assert_eq!(model.facts().device, Device::Cpu);
        model.facts().fell_back
    };
    assert!(fell_back(JobModel { fallback: true, ..gpu }));
    // The job does not ask for a GPU.
    assert!(!fell_back(model));
}

#[test]
fn a_missing_onnxruntime_is_reported() {
    let (_folder, model) = named(&bytes(&layer()));
    let models = open(vec![JobModel { backend: Backend::OnnxRuntime, ..model }], None);
    assert_eq!(
        describe(models.load("m")),
        "RuntimeError: model \"m\": ONNX Runtime cannot run it: its library was not found on this machine; \
         install the Python package onnxruntime and set SANDMILL_ONNXRUNTIME to its folder; or write \
         backend: tract"
    );
}

#[test]
fn operators_that_tract_lacks_are_named() {
    let mut proto = model(
        vec![
            node("FeatureVectorizer", &["x"], &["a"]),
            node("TfIdfVectorizer", &["a"], &["b"]),
            node("Relu", &["b"], &["c"]),
            node("Relu", &["c"], &["y"]),
        ],
        vec![port("x", DataType::Float, "N")],
        vec![port("y", DataType::Float, "N")],
        Vec::new(),
    );
    let graph = proto.graph.as_mut().expect("a graph");
    graph.node[3].domain = "org.example".to_owned();
    assert_eq!(
        describe(load(&proto)),
        "UnsupportedOperation: the model from bytes: it needs FeatureVectorizer, TfIdfVectorizer, \
         org.example.Relu, which tract does not have; ONNX Runtime may support it: run \"pip install onnxruntime\" in the active virtual environment, or name its library with --onnxruntime PATH, and remove backend: tract"
    );
    assert_eq!(
        describe(load(&one("Relu", DataType::Bfloat16, DataType::Bfloat16, "N"))),
        "UnsupportedOperation: the model from bytes: its input \"x\" is bfloat16, which tract cannot take; ONNX Runtime may support it: run \"pip install onnxruntime\" in the active virtual environment, or name its library with --onnxruntime PATH, and remove backend: tract"
    );
}

#[test]
fn all_models_together_share_one_limit() {
    let file = bytes(&layer());
    let size = file.len() as u64;
    assert!(size < 512, "sizes are shown in bytes");
    let (_folder, model) = named(&file);
    let settings = InferenceSettings { allow_guest_models: true, ..InferenceSettings::default() };
    let limits = Limits { models: ByteSize(size * 2), ..Limits::default() };
    let models = LoadedModels::open(vec![model], &settings, None, 1, &limits);
    models.load("m").expect("it loads");
    let first = models.load_bytes(&file, false).expect("the limit is reached");
    let both = size * 2;
    assert_eq!(
        describe(models.load_bytes(&file, false)),
        format!(
            "TooLarge: the model from bytes: its file has {size} bytes; limits.models is {both} bytes, of \
             which other models take {both} bytes"
        )
    );
    // The last handle frees the model.
    let again = first.clone();
    drop(first);
    assert_ne!(describe(models.load_bytes(&file, false)), "no error");
    drop(again);
    models.load_bytes(&file, false).expect("there is room again");
}
