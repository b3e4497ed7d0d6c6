//! Files that are not models, and hostile models.

use super::*;
use crate::inference::models::samples::{
    floats, graph, inner, ints, layer, longs, model, node, one, port, reals, texts, trees,
};
use crate::model::FileStamp;
use tract_onnx::pb::tensor_proto::{DataLocation, DataType};
use tract_onnx::pb::{
    AttributeProto, GraphProto, SparseTensorProto, StringStringEntryProto, TensorProto,
};

/// Loads a file, and returns the error's text.
fn load_bytes(file: &[u8]) -> String {
    describe(any_models().load_bytes(file, false)).replace(": the model from bytes: ", ": ")
}

/// The sample layer, with a change.
fn changed(change: impl FnOnce(&mut GraphProto)) -> ModelProto {
    let mut proto = layer();
    change(proto.graph.as_mut().expect("a graph"));
    proto
}

fn refused(change: impl FnOnce(&mut GraphProto)) -> String {
    load_bytes(&bytes(&changed(change)))
}

#[test]
fn files_that_are_not_models_are_refused() {
    let file = bytes(&layer());
    let texts = [
        load_bytes(&[]),
        load_bytes(&file[..file.len() / 2]),
        load_bytes(&b"\x0a\xffthis isn't protobuf"[..]),
        load_bytes(&bytes(&ModelProto::default())),
        load_bytes(&bytes(&ModelProto { ir_version: 8, ..ModelProto::default() })),
    ];
    insta::assert_snapshot!(texts.join("\n"), @"
    InvalidEncoding: it is empty
    InvalidEncoding: it is not an ONNX model: failed to decode Protobuf message: ModelProto.graph: buffer underflow
    InvalidEncoding: it is not an ONNX model: failed to decode Protobuf message: ModelProto.ir_version: invalid wire type: LengthDelimited (expected Varint)
    InvalidEncoding: it is empty
    InvalidEncoding: it is not an ONNX model: there is no graph in it
    ");
}

#[test]
fn random_bytes_are_refused() {
    let mut state = 1_u64;
    for length in 1..300 {
        let garbage: Vec<u8> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        assert!(load_bytes(&garbage).starts_with("InvalidEncoding: "), "{garbage:?}");
    }
}

/// Loading a damaged model returns a model or an error. A crash would end the test.
#[test]
fn damaged_models_cause_no_crash() {
    let mut state = 1_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let models = any_models();
    let mut loaded = 0;
    for file in [bytes(&layer()), bytes(&trees(Vec::new()))] {
        for _ in 0..300 {
            let mut changed = file.clone();
            for _ in 0..=random(3) {
                let at = random(changed.len());
                changed[at] =
                    if random(2) == 0 { 1 << random(8) } else { random(256).to_le_bytes()[0] };
            }
            let Ok(model) = models.load_bytes(&changed, false) else { continue };
            loaded += 1;
            for columns in [2, 4] {
                // The result may be right or wrong, but the call must return.
                let _ = run_x(&model, &[1, columns], &[0.5; 4][..columns as usize]);
            }
        }
    }
    assert!(loaded > 50, "{loaded}");
}

#[test]
fn contradictory_graphs_are_refused() {
    let texts = [
        refused(|graph| graph.output[0].name = "z".to_owned()),
        refused(|graph| graph.input.push(graph.input[0].clone())),
        refused(|graph| graph.output.push(graph.output[0].clone())),
        refused(|graph| graph.input[0] = port("x", DataType::Float, "N 5000000000")),
        // tract itself reports the following two.
        refused(|graph| graph.node[0].input[0] = "nothing".to_owned()),
        refused(|graph| graph.input[0].r#type = None),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r#"
    InvalidEncoding: nothing in it makes its output "z"
    InvalidEncoding: two of its inputs are called "x"
    InvalidEncoding: two of its outputs are called "y"
    InvalidEncoding: "x" has a dimension of 5000000000; the maximum is 4294967295
    RuntimeError: tract: nothing in the model makes "nothing"
    UnsupportedOperation: its input "x" is not a tensor, which tract cannot take; ONNX Runtime may support it: run "pip install onnxruntime" in the active virtual environment, or name its library with --onnxruntime PATH, and remove backend: tract
    "#);
}

#[test]
fn weights_that_differ_from_their_description_are_refused() {
    let weight = |change: fn(&mut TensorProto)| refused(|graph| change(&mut graph.initializer[0]));
    let texts = [
        weight(|weight| weight.dims = vec![2, 4]),
        weight(|weight| weight.dims = vec![1 << 40, 1 << 40]),
        weight(|weight| weight.dims = vec![1 << 31, 1 << 31]),
        weight(|weight| weight.dims = vec![-2, -3]),
        weight(|weight| weight.raw_data.clear()),
        weight(|weight| weight.data_type = DataType::String as i32),
        weight(|weight| weight.data_type = 77),
        // A weight inside a node.
        refused(|graph| {
            let mut weight = floats("c", &[1], &[1.0]);
            weight.dims = vec![1 << 50];
            graph.node[0].attribute.push(AttributeProto { t: Some(weight), ..Default::default() });
        }),
        // A small file that would need much memory.
        refused(|graph| {
            graph.sparse_initializer.push(SparseTensorProto {
                values: Some(floats("s", &[1], &[1.0])),
                indices: Some(longs("", &[1], &[0])),
                dims: vec![1 << 20, 1 << 20],
            });
        }),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r#"
    InvalidEncoding: its weight "W" is float [2, 4], which takes 32 bytes; it has 24
    InvalidEncoding: its weight "W" has the dimensions [1099511627776, 1099511627776], more than any memory holds
    InvalidEncoding: its weight "W" has the dimensions [2147483648, 2147483648], more than any memory holds
    InvalidEncoding: its weight "W" has a dimension of -2
    InvalidEncoding: its weight "W" is float [2, 3], which takes 6 values; it has 0
    InvalidEncoding: its weight "W" is string [2, 3], which takes 96 bytes; it has 24
    RuntimeError: tract: unknown ONNX TensorProto.DataType (77): unknown enumeration value 77
    InvalidEncoding: its weight "c" is float [1125899906842624], which takes 4503599627370496 bytes; it has 4
    TooLarge: its file with its weights has 4096.0 GB; limits.models is 1 GB
    "#);
}

/// A layer whose first weight is in another file.
fn beside(location: &str, more: &[(&str, &str)]) -> ModelProto {
    changed(|graph| {
        let weight = &mut graph.initializer[0];
        weight.raw_data.clear();
        weight.data_location = Some(DataLocation::External as i32);
        let entries = [("location", location)].into_iter().chain(more.iter().copied());
        weight.external_data = entries
            .map(|(key, value)| StringStringEntryProto {
                key: key.to_owned(),
                value: value.to_owned(),
            })
            .collect();
    })
}

/// A job keeps the model with which it began, including the weights in other files.
#[test]
fn weights_in_other_files_may_not_change_while_a_job_runs() {
    let (folder, model) = named(&bytes(&beside("./w.bin", &[])));
    let path = folder.path().join("w.bin");
    let weights: Vec<u8> = [1.0_f32; 6].iter().flat_map(|w| w.to_le_bytes()).collect();
    fs::write(&path, &weights).expect("weights");
    let stamp =
        |path: &std::path::Path| FileStamp::from_metadata(&path.metadata().expect("it is there"));
    let load = |beside: Option<Vec<(String, FileStamp)>>| {
        let models = vec![JobModel { beside, ..model.clone() }];
        let models =
            LoadedModels::open(models, &InferenceSettings::default(), None, 1, &Limits::default());
        describe(models.load("m").map(drop))
    };
    let known = Some(vec![("w.bin".to_owned(), stamp(&path))]);
    assert_eq!(load(known.clone()), "no error");
    assert_eq!(load(None), "no error");
    insta::assert_snapshot!(load(Some(Vec::new())), @r#"ends, host_fault: model "m": the file with its weights, "./w.bin", did not exist when the job began: do not write to a model's folder while a job runs, and start the job again"#);
    fs::remove_file(&path).expect("it is there");
    fs::write(&path, &weights).expect("weights");
    fs::File::options()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_modified(std::time::UNIX_EPOCH))
        .expect("a time");
    insta::assert_snapshot!(load(known), @r#"ends, host_fault: model "m": the file with its weights, "./w.bin", changed after the job began, so that workers would compute with different models: do not write to it while a job runs, and start the job again"#);
}

#[test]
fn separate_weights_must_be_in_the_models_folder() {
    let load = |proto: &ModelProto| {
        let (folder, model) = named(&bytes(proto));
        let inside = folder.path().join("w.bin");
        let weights: Vec<u8> = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
            .iter()
            .flat_map(|w: &f32| w.to_le_bytes())
            .collect();
        fs::write(&inside, weights).expect("weights");
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).expect("a link");
        let models = LoadedModels::open(
            vec![model],
            &InferenceSettings::default(),
            None,
            1,
            &Limits::default(),
        );
        models.load("m").and_then(|model| run_x(&model, &[1, 2], &[1.0, 1.0]))
    };
    let outputs = load(&beside("w.bin", &[("offset", "4"), ("length", "24")])).expect("it runs");
    assert_eq!(f32s(&outputs[0]), [5.5, 0.0, 9.0]);
    // Contradictory descriptions. Backends differ in which of them they use.
    let ambiguous = |change: &dyn Fn(&mut TensorProto)| {
        let mut proto = beside("w.bin", &[]);
        let graph = proto.graph.as_mut().expect("a graph");
        change(&mut graph.initializer[0]);
        load_bytes(&bytes(&proto))
    };
    let texts = [
        ambiguous(&|weight| weight.raw_data = vec![0; 24]),
        ambiguous(&|weight| weight.float_data = vec![0.0; 6]),
        ambiguous(&|weight| weight.data_type = 77),
        load_bytes(&bytes(&beside("w.bin", &[("location", "x.bin")]))),
        load_bytes(&bytes(&beside("w.bin", &[]))),
        describe(load(&beside("../../../etc/passwd", &[]))),
        describe(load(&beside("/etc/passwd", &[]))),
        describe(load(&beside("link", &[]))),
        describe(load(&beside("", &[]))),
        describe(load(&beside(".", &[]))),
        describe(load(&beside("gone.bin", &[]))),
        describe(load(&beside("w.bin", &[("offset", "-4")]))),
        describe(load(&beside("w.bin", &[("offset", "18446744073709551615")]))),
        describe(load(&beside("w.bin", &[("offset", "8")]))),
        describe(load(&beside("w.bin", &[("length", "28")]))),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r#"
    InvalidEncoding: its weight "W" refers to another file, but also contains values
    InvalidEncoding: its weight "W" refers to another file, but also contains values
    InvalidEncoding: its weight "W" is in another file, and its type (77) is not known
    InvalidEncoding: its weight "W" is in another file, and has "location" twice
    InvalidEncoding: its weight "W" is in another file, "w.bin", and a model from bytes has no other files
    InvalidEncoding: model "m": its weight "W" is in another file, "../../../etc/passwd", which is not a file of the model's folder
    InvalidEncoding: model "m": its weight "W" is in another file, "/etc/passwd", which is not a file of the model's folder
    InvalidEncoding: model "m": its weight "W" is in another file, "link", which is not a file of the model's folder
    InvalidEncoding: model "m": its weight "W" is in another file, "", which is not a file of the model's folder
    InvalidEncoding: model "m": its weight "W" is in another file, ".", which is not a file of the model's folder
    InvalidEncoding: model "m": its weight "W" is in another file, "gone.bin", which cannot be read (No such file or directory (os error 2)); if it is next to the model's file, write the folder as the model's path
    InvalidEncoding: model "m": its weight "W" is in another file, "w.bin", whose offset is not a number: "-4"
    InvalidEncoding: model "m": its weight "W" is in another file, "w.bin", at offset 18446744073709551615 with a length of 24 bytes; the weight takes 24, and the file has 28
    InvalidEncoding: model "m": its weight "W" is in another file, "w.bin", at offset 8 with a length of 24 bytes; the weight takes 24, and the file has 28
    InvalidEncoding: model "m": its weight "W" is in another file, "w.bin", at offset 0 with a length of 28 bytes; the weight takes 24, and the file has 28
    "#);
}

#[test]
fn too_deep_or_large_graphs_are_refused() {
    let mut deep = vec![node("Relu", &["x"], &["y"])];
    for _ in 0..60 {
        let inside = graph(deep, Vec::new(), vec![port("y", DataType::Float, "1")], Vec::new());
        let mut outside = node("If", &["x"], &["y"]);
        outside.attribute = vec![inner("then_branch", inside)];
        deep = vec![outside];
    }
    let texts = [
        refused(|graph| graph.node = deep),
        refused(|graph| {
            graph.node.extend((0..100_000).map(|at| node("Relu", &["x"], &[&at.to_string()])));
        }),
    ];
    insta::assert_snapshot!(texts.join("\n"), @"
    InvalidEncoding: its graphs are nested too deeply; the maximum is about 30 levels
    UnsupportedOperation: it has 100,003 nodes; the maximum is 100,000
    ");
}

/// Without a check, each of these models would make the backend crash, loop forever, or silently
/// give wrong results.
#[test]
fn malformed_trees_are_refused() {
    let tree = |attributes: Vec<AttributeProto>| load_bytes(&bytes(&trees(attributes)));
    let texts = [
        tree(vec![ints("nodes_truenodeids", &[0, 0, 0]), ints("nodes_falsenodeids", &[0, 0, 0])]),
        tree(vec![ints("nodes_truenodeids", &[77, 0, 0])]),
        tree(vec![ints("nodes_falsenodeids", &[-1, 0, 0])]),
        tree(vec![ints("class_ids", &[0, 1 << 20])]),
        tree(vec![ints("class_ids", &[0, -1])]),
        tree(vec![ints("class_nodeids", &[0, 2])]),
        tree(vec![ints("class_treeids", &[0, 0, 0])]),
        tree(vec![ints("nodes_nodeids", &[0, 1, 3])]),
        tree(vec![ints("nodes_nodeids", &[0, 1, 1])]),
        tree(vec![texts("nodes_modes", &["LEAF", "LEAF"])]),
        tree(vec![ints("class_ids", &[0, 1]), ints("class_ids", &[0, 9])]),
        tree(vec![texts("nodes_modes", &["BRANCH_EQUAL", "LEAF", "LEAF"])]),
        tree(vec![ints("nodes_featureids", &[-1, 0, 0])]),
        tree(vec![reals("nodes_values", &[0.0])]),
        tree(vec![reals("class_weights", &[1.0])]),
        tree(vec![texts("classlabels_strings", &["a", "b", "c"])]),
        tree(vec![ints("classlabels_int64s", &[0, 1])]),
        tree(vec![reals("class_weights", &[-1.0, 1.0])]),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r#"
    InvalidEncoding: its TreeEnsembleClassifier has a tree 0 that contains a cycle
    InvalidEncoding: its TreeEnsembleClassifier has a tree 0 of 3 nodes that leads to a node that does not exist
    InvalidEncoding: its TreeEnsembleClassifier has a tree 0 of 3 nodes that leads to a node that does not exist
    InvalidEncoding: its TreeEnsembleClassifier votes on class 1048576, and has 3 classes
    InvalidEncoding: its TreeEnsembleClassifier votes on class -1, and has 3 classes
    InvalidEncoding: its TreeEnsembleClassifier has votes at node 0 of tree 0, which is not a leaf
    InvalidEncoding: its TreeEnsembleClassifier describes its votes in lists of different lengths
    InvalidEncoding: its TreeEnsembleClassifier has a tree 0 whose nodes are not numbered from 0
    InvalidEncoding: its TreeEnsembleClassifier has a tree 0 whose nodes are not numbered from 0
    InvalidEncoding: its TreeEnsembleClassifier describes its nodes in lists of different lengths
    InvalidEncoding: its TreeEnsembleClassifier has two attributes "class_ids"
    InvalidEncoding: its TreeEnsembleClassifier has a node of a mode that is not known
    InvalidEncoding: its TreeEnsembleClassifier asks for the column -1
    InvalidEncoding: its TreeEnsembleClassifier describes its nodes in lists of different lengths
    InvalidEncoding: its TreeEnsembleClassifier describes its votes in lists of different lengths
    InvalidEncoding: its TreeEnsembleClassifier has both labels that are numbers and labels that are texts
    UnsupportedOperation: it needs TreeEnsembleClassifier of two classes with votes on the second one, which tract does not have; ONNX Runtime may support it: run "pip install onnxruntime" in the active virtual environment, or name its library with --onnxruntime PATH, and remove backend: tract
    UnsupportedOperation: it needs TreeEnsembleClassifier whose trees do not vote on each class, which tract does not have; ONNX Runtime may support it: run "pip install onnxruntime" in the active virtual environment, or name its library with --onnxruntime PATH, and remove backend: tract
    "#);
}

#[test]
fn operators_that_tract_computes_differently_are_refused() {
    let with = |op_type: &str, attributes: Vec<AttributeProto>| {
        let mut proto = one(op_type, DataType::Float, DataType::Float, "N 4");
        proto.graph.as_mut().expect("a graph").node[0].attribute = attributes;
        load_bytes(&bytes(&proto))
    };
    let softmax = AttributeProto {
        name: "post_transform".to_owned(),
        s: b"SOFTMAX".to_vec(),
        ..AttributeProto::default()
    };
    let texts = [
        with("LinearRegressor", vec![softmax.clone()]),
        with("LinearClassifier", vec![ints("classlabels_ints", &[0, 1]), softmax.clone()]),
        with(
            "LinearClassifier",
            vec![ints("classlabels_ints", &[0, 1]), reals("intercepts", &[1.0]), softmax],
        ),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r#"
    UnsupportedOperation: it needs LinearRegressor with post_transform, which tract does not have; ONNX Runtime may support it: run "pip install onnxruntime" in the active virtual environment, or name its library with --onnxruntime PATH, and remove backend: tract
    UnsupportedOperation: it needs LinearClassifier without intercepts, which tract does not have; ONNX Runtime may support it: run "pip install onnxruntime" in the active virtual environment, or name its library with --onnxruntime PATH, and remove backend: tract
    UnsupportedOperation: it needs LinearClassifier of two classes without post_transform LOGISTIC, which tract does not have; ONNX Runtime may support it: run "pip install onnxruntime" in the active virtual environment, or name its library with --onnxruntime PATH, and remove backend: tract
    "#);
}

/// The tensor has more elements than there are addresses, so that no machine tries to allocate it.
#[test]
fn a_tensor_beyond_all_memory_is_an_error() {
    let model = load(&model(
        vec![node("ConstantOfShape", &["shape"], &["c"]), node("Add", &["x", "c"], &["y"])],
        vec![port("x", DataType::Float, "1")],
        vec![port("y", DataType::Float, "?")],
        vec![longs("shape", &[2], &[1 << 30, 1 << 28])],
    ))
    .expect("it loads");
    let text = describe(run_x(&model, &[1], &[0.0]));
    assert!(
        text.starts_with("ends, out_of_memory: the backend needs more memory than the worker may"),
        "{text}"
    );
    // The second run fails in the same way: the failed plan is not kept.
    assert_eq!(describe(run_x(&model, &[1], &[0.0])), text);
}

/// An index must be within the table.
#[test]
fn indices_beyond_a_tensor_are_errors() {
    let gather = |op_type: &str| {
        let proto = model(
            vec![node(op_type, &["table", "x"], &["y"])],
            vec![port("x", DataType::Int64, "2 1")],
            vec![port("y", DataType::Float, "?")],
            vec![floats("table", &[3, 1], &[1.0, 2.0, 3.0])],
        );
        load(&proto).expect("it loads")
    };
    for op_type in ["Gather", "GatherElements"] {
        let model = gather(op_type);
        let run =
            |indices: [i64; 2]| model.run(&[view("x", NnTensorType::I64, &[2, 1], &raw!(indices))]);
        let outputs = run([2, 0]).expect("it runs");
        assert_eq!(f32s(&outputs[0]), [3.0, 1.0], "{op_type}");
        for wrong in [3, 1 << 40, i64::MAX, -4, i64::MIN] {
            let text = describe(run([0, wrong]));
            assert!(text.starts_with("RuntimeError: tract: "), "{op_type} {wrong}: {text}");
        }
    }
}

#[test]
fn a_model_must_be_a_regular_file() {
    let (folder, model) = named(&[]);
    let path = folder.path().join("model.onnx");
    fs::remove_file(&path).expect("the file goes");
    fs::create_dir(&path).expect("a folder comes");
    let models =
        LoadedModels::open(vec![model], &InferenceSettings::default(), None, 1, &Limits::default());
    assert_eq!(
        describe(models.load("m")),
        "RuntimeError: model \"m\": the model's folder/model.onnx cannot be read: it is not a regular file"
    );
}
