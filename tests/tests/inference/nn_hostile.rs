//! Hostile models. Each affects at most its own attempt, and the job reports how the attempt ended.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails, with the place")]

use sandmill_tests::{Ran, TestJob, computing, models_in, onnxruntime};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

const BACKENDS: [&str; 2] = ["tract", "onnxruntime"];
/// The tensor `x` with the number 1.0.
const TENSOR_OF_ONE: &str = "x f32 1 0000803f\n";

/// Adds inputs for the good model `mlp`, on which the hostile models must have no effect.
fn with_good_inputs(job: TestJob, count: usize) -> TestJob {
    let tensor = format!("x f32 1x64 {}\n", "0000803f".repeat(64));
    (0..count).fold(job, |job, n| job.file(&format!("inputs/mlp-{n}.tensors"), &tensor))
}

/// The number of successful computations of the good model.
fn good_count(ran: &Ran) -> usize {
    ran.output()
        .lines()
        .filter(|row| row.starts_with("mlp-") && row.contains(" y f32 1x10 "))
        .count()
}

/// Truncated files, garbage, dimensions that are too large, wrong types, nested branches, and trees with
/// cycles or missing classes. Each is refused with a message that names the model, and has no other effect.
#[test]
fn an_invalid_model_is_refused() {
    for backend in BACKENDS {
        let mut models = models_in("hostile");
        let others = ["/endless_loop", "/expand_bomb", "/huge_constant"];
        models.retain(|name| !others.iter().any(|other| name.ends_with(other)));
        if backend == "tract" {
            // With tract, this model is refused before the job begins: see the next test.
            models.retain(|name| !name.ends_with("/unknown_operator"));
        }
        assert!(models.len() >= 12, "{models:?}");
        let names: Vec<String> =
            models.iter().map(|name| name["hostile/".len()..].into()).collect();
        models.push("mlp".to_owned());
        let job = with_good_inputs(computing(&format!("backend: {backend}"), &models), 3)
            .yaml("process_count_per_node: 1");
        let tensor = |name: &str| match name {
            "wrong_types" => format!("x f32 1x4 {}\n", "0000803f".repeat(4)),
            _ => TENSOR_OF_ONE.to_owned(),
        };
        let add = |job: TestJob, name: &String| {
            job.file(&format!("inputs/{name}-0.tensors"), tensor(name))
        };
        let ran = names.iter().fold(job, add).run(&[]);
        ran.exits_with(0);
        assert_eq!(good_count(&ran), 3, "{backend}\n{ran}");
        for name in &names {
            let output = ran.output();
            let row = output.lines().find(|row| row.starts_with(&format!("{name}-0 refused ")));
            let row =
                row.unwrap_or_else(|| panic!("{name} on {backend} was not refused\n{output}"));
            println!("{backend}: {row}");
            // `wrong_types` fails only when it runs, and this error need not name the model.
            let names_model = row.contains(&format!("model \"{name}\"")) || name == "wrong_types";
            assert!(names_model, "{backend}: {row}");
            assert!(row.len() < 2500, "{backend}: {row}");
        }
        let workers = ran.log("sys/job_report/process_summary.csv");
        assert_eq!(workers.lines().count(), 2, "a worker died on {backend}\n{workers}");
    }
}

/// The job does not begin. The message contains the command that installs ONNX Runtime, and appears
/// once.
#[test]
fn an_unsupported_operator_is_refused_before_the_job_begins() {
    let models = ["hostile/unknown_operator".to_owned()];
    let ran = computing("backend: tract", &models).file("inputs/a.tensors", TENSOR_OF_ONE).run(&[]);
    ran.exits_with(2);
    let stderr = &ran.says("model unknown_operator: it needs ").stderr;
    assert_eq!(stderr.matches("unknown_operator").count(), 1, "{stderr}");
    assert!(stderr.contains(r#"run "pip install onnxruntime""#), "{stderr}");
    assert!(!ran.has("job/journal.db"), "{ran}");
}

/// The timeout kills the worker that computes an endless loop. Another worker replaces it, with the same GPU
/// if it had one, and the job continues.
#[test]
fn an_endless_loop_is_ended_by_the_time_out() {
    let models = ["hostile/endless_loop", "mlp"].map(str::to_owned);
    let ran = with_good_inputs(computing("backend: onnxruntime", &models), 3)
        .file("inputs/endless_loop-0.tensors", TENSOR_OF_ONE)
        .yaml("process_count_per_node: 1\ngpus: 1\nrun_max_try: 1\nerror_threshold: -1")
        .yaml("run_invocation_timeout: 3")
        .run(&[]);
    ran.exits_with(0);
    assert_eq!(good_count(&ran), 3, "{ran}");
    assert_eq!(ran.attempts("RUN_TIMEOUT"), ["0, 1"], "{ran}");
    ran.says("and was computing with the model \"endless_loop\" for the last ");
    let workers = ran.log("sys/job_report/process_summary.csv");
    let gpus: Vec<_> = workers.lines().skip(1).map(|row| row.split(',').nth(3)).collect();
    assert_eq!(gpus, [Some("0"), Some("0")], "{workers}");
    // tract has no loops.
    let ran = computing("backend: tract", &models)
        .file("inputs/endless_loop-0.tensors", TENSOR_OF_ONE)
        .run(&[]);
    ran.exits_with(2)
        .says("model endless_loop: it needs Loop, which tract does not have; ONNX Runtime may support it: ");
}

/// Models of a few bytes, whose tensors take 16 GB or many terabytes. The attempt fails before the machine is
/// out of memory. The entry script cannot catch this failure and continue.
#[test]
fn a_bomb_fails_only_its_attempt() {
    for (backend, bomb) in
        BACKENDS.into_iter().flat_map(|name| [(name, "expand_bomb"), (name, "huge_constant")])
    {
        let models = [format!("hostile/{bomb}"), "mlp".to_owned()];
        let ran = with_good_inputs(computing(&format!("backend: {backend}"), &models), 3)
            .file(&format!("inputs/{bomb}-0.tensors"), TENSOR_OF_ONE)
            .yaml("process_count_per_node: 1\nrun_max_try: 1\nerror_threshold: -1")
            .run(&[]);
        ran.exits_with(0);
        assert_eq!(good_count(&ran), 3, "{backend} {bomb}\n{ran}");
        let report = ran.log("sys/job_report/processed_mini-batches.csv");
        // Either the backend or the worker reports that there is not enough memory.
        assert!(report.contains(",out_of_memory,"), "{backend} {bomb}\n{report}\n{ran}");
    }
}

/// The tag and length of a protobuf field of bytes. The content follows.
fn field(number: u8, length: u64) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut rest = length;
    while rest > 127 {
        bytes.push((rest & 127) as u8 | 128);
        rest >>= 7;
    }
    bytes.push(rest.to_le_bytes()[0]);
    bytes
}

/// Writes a model with one initializer of this many zeros. The file is sparse, so the zeros take no space on
/// the disk.
fn write_sparse_model(file: &File, zeros: u64) {
    // Field numbers of onnx.proto. TensorProto: dims is 1, data_type is 2 (with the value 2 for UINT8), and
    // raw_data is 9. GraphProto: initializer is 5. ModelProto: graph is 7.
    let dims = [vec![8], varint(zeros), vec![16, 2]].concat();
    let raw = field(9, zeros);
    let tensor = (dims.len() + raw.len()) as u64 + zeros;
    let in_graph = field(5, tensor);
    let graph = in_graph.len() as u64 + tensor;
    let head = [field(7, graph), in_graph, dims, raw].concat();
    let mut writer = file;
    writer.write_all(&head).unwrap();
    file.write_all_at(&[0], head.len() as u64 + zeros - 1).unwrap();
}

/// A model with an initializer of this many 1-byte numbers in the file `w.bin`.
fn model_with_external_weights(bytes: u64) -> Vec<u8> {
    let whole_field =
        |number, content: &[u8]| [&field(number, content.len() as u64), content].concat();
    // Field numbers of a TensorProto in onnx.proto: external_data is 13, and data_location is 14 (with the
    // value 1 for EXTERNAL).
    let location = [whole_field(1, b"location"), whole_field(2, b"w.bin")].concat();
    let tensor =
        [&[8][..], &varint(bytes), &[16, 2], &whole_field(13, &location), &[14 << 3, 1]].concat();
    whole_field(7, &whole_field(5, &tensor))
}

/// Weights in a separate file count toward `limits.models` if the model refers to them. A job whose models
/// are too large does not begin.
#[test]
fn large_external_weights_are_refused_before_the_job_begins() {
    let job = |weights: u64| {
        let job = TestJob::new(&sandmill_tests::guest("computes"))
            .file("inputs/mlp-0.tensors", TENSOR_OF_ONE)
            .file("models/big/model.onnx", model_with_external_weights(weights))
            .yaml("inputs: {tensors: inputs}\nmini_batch_size: 1")
            .yaml("models: {big: {path: models/big, backend: tract}}\nlimits: {models: 1 MB}");
        File::create(job.path("models/big/w.bin")).unwrap().set_len(3 << 20).unwrap();
        job
    };
    let refused = job(3 << 20).run(&[]);
    refused
        .exits_with(2)
        .says("model big: ")
        .says("model.onnx, with the weights that it names, has");
    assert!(!refused.has("job"), "{refused}");
    // The model uses only a small part of the file.
    job(1000).run(&[]).exits_with(0);
}

fn varint(number: u64) -> Vec<u8> {
    field(0, number)[1..].to_vec()
}

/// Gigabytes of initializers are refused before they are read, and the message names the limit.
#[test]
fn gigabytes_of_initializers_are_refused() {
    for backend in BACKENDS {
        let job = TestJob::new(&sandmill_tests::guest("computes"))
            .env("SANDMILL_ONNXRUNTIME", &onnxruntime().display().to_string())
            .file("inputs/large-0.tensors", TENSOR_OF_ONE)
            .file("models/README", "")
            .yaml("inputs: {tensors: inputs}\nmini_batch_size: 1")
            .yaml(&format!("models: {{large: {{path: models/large.onnx, backend: {backend}}}}}"))
            .yaml("error_threshold: -1");
        write_sparse_model(&File::create(job.path("models/large.onnx")).unwrap(), 3 << 30);
        let ran = job.run(&[]);
        assert_ne!(ran.code, 0, "{backend}\n{ran}");
        ran.says("limits.models");
    }
}
