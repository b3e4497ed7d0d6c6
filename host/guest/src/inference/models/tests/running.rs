//! What models compute, and which inputs they take.

use super::*;
use crate::inference::models::samples::{floats, int, layer, longs, model, node, one, port, trees};
use crate::inference::models::{ModelDimension, ModelElementType, ModelPort};
use crate::model::Device;
use half::f16;
use tract_onnx::pb::tensor_proto::DataType;

#[test]
fn a_layer_is_computed_for_any_batch() {
    let model = load(&layer()).expect("it loads");
    // tract keeps a compiled plan for each of the last few input shapes. This loop uses more shapes
    // than that, and some of them twice.
    for rows in [1_u16, 2, 3, 4, 5, 6, 1, 2, 3] {
        let x: Vec<f32> = (0..rows * 2).map(f32::from).collect();
        let outputs = run_x(&model, &[rows.into(), 2], &x).expect("it runs");
        let expected: Vec<f32> = x
            .chunks(2)
            .flat_map(|x| {
                let a = x[0];
                let b = x[1];
                [a + 4.0 * b + 0.5, 2.0 * a + 5.0 * b - 100.0, 3.0 * a + 6.0 * b]
            })
            .map(|value| value.max(0.0))
            .collect();
        assert_eq!(outputs[0].name, "y");
        assert_eq!(outputs[0].dims, [rows.into(), 3]);
        assert_eq!(f32s(&outputs[0]), expected);
    }
}

#[test]
fn inputs_and_outputs_are_described() {
    let model = load(&layer()).expect("it loads");
    let facts = model.facts();
    let named = |name: &str| ModelDimension::Named(name.to_owned());
    assert_eq!(
        facts.inputs,
        [ModelPort {
            name: "x".to_owned(),
            ty: ModelElementType::Standard(NnTensorType::F32),
            shape: Some(vec![named("N"), ModelDimension::Fixed(2)]),
        }]
    );
    assert_eq!(facts.outputs.len(), 1);
    assert_eq!(
        (facts.backend, facts.device, facts.fell_back),
        (Backend::Tract, Device::Cpu, false)
    );
    let shown: Vec<String> = [
        port("a", DataType::Uint16, "? 3"),
        port("b", DataType::Bool, ""),
        port("c", DataType::Bfloat16, "-1"),
    ]
    .into_iter()
    .map(|port| model_port(port).to_string())
    .collect();
    assert_eq!(shown, ["uint16 [?, 3]", "u8 []", "bf16 [?]"]);
}

fn model_port(info: tract_onnx::pb::ValueInfoProto) -> ModelPort {
    let proto = model(Vec::new(), Vec::new(), vec![info], Vec::new());
    let graph = proto.graph.expect("a graph");
    crate::inference::models::onnx_facts::outputs(&graph).expect("its output").remove(0)
}

#[test]
fn each_computation_is_counted_once() {
    let models = any_models();
    let model = models.load_bytes(&bytes(&layer()), false).expect("it loads");
    assert_eq!(models.take_stats(), Default::default());
    run_x(&model, &[2, 2], &[0.0; 4]).expect("it runs");
    run_x(&model, &[1, 2], &[0.0; 2]).expect("it runs");
    assert_ne!(describe(run_x(&model, &[1, 3], &[0.0; 3])), "no error");
    let stats = models.take_stats();
    assert_eq!((stats.calls, stats.bytes_in, stats.bytes_out), (2, 24, 36));
    assert!(stats.seconds > 0.0);
    assert_eq!((stats.device, stats.fell_back), (Some(Device::Cpu), false));
    assert_eq!(stats.backends.to_string(), "tract");
    assert_eq!(models.take_stats(), Default::default());
}

#[test]
fn all_number_types_are_accepted_and_returned() {
    let f16s = |values: [f32; 2]| raw!(values.map(|value| f16::from_f32(value).to_bits()));
    let cases: [(DataType, NnTensorType, Vec<u8>, Vec<u8>); 6] = [
        (DataType::Float, NnTensorType::F32, raw!([1.5_f32, -2.0]), raw!([3.0_f32, -4.0])),
        (DataType::Double, NnTensorType::F64, raw!([1.5_f64, -2.0]), raw!([3.0_f64, -4.0])),
        (DataType::Float16, NnTensorType::F16, f16s([1.5, -2.0]), f16s([3.0, -4.0])),
        (DataType::Int64, NnTensorType::I64, raw!([1_i64 << 40, -2]), raw!([1_i64 << 41, -4])),
        (DataType::Int32, NnTensorType::I32, raw!([3_i32, -2]), raw!([6_i32, -4])),
        (DataType::Uint8, NnTensorType::U8, vec![3, 100], vec![6, 200]),
    ];
    for (onnx, ty, x, doubled) in cases {
        let mut proto = one("Add", onnx, onnx, "N");
        proto.graph.as_mut().expect("a graph").node[0].input.push("x".to_owned());
        let model = load(&proto).expect("it loads");
        let outputs = model.run(&[view("x", ty, &[2], &x)]).expect("it runs");
        assert_eq!((outputs[0].ty, &outputs[0].bytes), (ty, &doubled), "{ty}");
    }
}

#[test]
fn booleans_are_bytes() {
    let model = load(&one("Not", DataType::Bool, DataType::Bool, "N")).expect("it loads");
    let outputs = model.run(&[view("x", NnTensorType::U8, &[3], &[0, 1, 77])]).expect("it runs");
    assert_eq!((outputs[0].ty, outputs[0].bytes.as_slice()), (NnTensorType::U8, &[1, 0, 0][..]));
}

#[test]
fn a_scalar_has_one_element() {
    let model = load(&one("Relu", DataType::Float, DataType::Float, "")).expect("it loads");
    for dims in [&[][..], &[1]] {
        let outputs = run_x(&model, dims, &[-3.0]).expect("it runs");
        assert_eq!((outputs[0].dims.as_slice(), f32s(&outputs[0])), (&[1][..], vec![0.0]));
    }
    assert_eq!(
        describe(run_x(&model, &[2], &[0.0; 2])),
        r#"InvalidArgument: input "x": expected f32 [], got f32 [2]"#
    );
}

/// tract uses its own type for sizes.
#[test]
fn shapes_and_indices_are_returned_as_integers() {
    let mut concat = node("Concat", &["one", "minus"], &["to"]);
    concat.attribute = vec![int("axis", 0)];
    let proto = model(
        vec![
            node("Shape", &["x"], &["shape"]),
            node("Gather", &["shape", "first"], &["rows"]),
            node("Unsqueeze", &["rows", "zero"], &["one"]),
            concat,
            node("Reshape", &["x", "to"], &["y"]),
            node("ArgMax", &["y"], &["best"]),
        ],
        vec![port("x", DataType::Float, "N 2 2")],
        vec![port("shape", DataType::Int64, "3"), port("best", DataType::Int64, "1 4")],
        vec![longs("first", &[], &[0]), longs("zero", &[1], &[0]), longs("minus", &[1], &[-1])],
    );
    let model = load(&proto).expect("it loads");
    let x = [0.0, 1.0, 2.0, 3.0, 4.0, 0.0, 4.0, 0.0];
    let outputs = run_x(&model, &[2, 2, 2], &x).expect("it runs");
    assert_eq!(i64s(&outputs[0]), [2, 2, 2]);
    assert_eq!((outputs[1].dims.as_slice(), i64s(&outputs[1])), (&[1, 4][..], vec![1, 0, 1, 0]));
}

#[test]
fn trees_vote() {
    let model = load(&trees(Vec::new())).expect("it loads");
    let outputs =
        run_x(&model, &[2, 4], &[1.0, 0.0, 0.0, 0.0, -1.0, 9.0, 9.0, 9.0]).expect("it runs");
    assert_eq!(i64s(&outputs[0]), [20, 10]);
    assert_eq!(f32s(&outputs[1]), [0.0, 1.5, 0.0, 2.5, 0.0, 0.0]);
}

#[test]
fn outputs_of_other_types_are_listed_but_not_returned() {
    let mut cast = node("Cast", &["x"], &["short"]);
    cast.attribute = vec![int("to", DataType::Uint16 as i64)];
    let proto = model(
        vec![cast, node("Relu", &["x"], &["y"])],
        vec![port("x", DataType::Float, "N")],
        vec![port("short", DataType::Uint16, "N"), port("y", DataType::Float, "N")],
        Vec::new(),
    );
    let model = load(&proto).expect("it loads");
    let shown: Vec<String> = model.facts().outputs.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["uint16 [N]", "f32 [N]"]);
    let outputs = run_x(&model, &[1], &[1.0]).expect("it runs");
    assert_eq!(outputs.len(), 1);
    assert_eq!((outputs[0].name.as_str(), f32s(&outputs[0])), ("y", vec![1.0]));

    let mut only = proto;
    only.graph.as_mut().expect("a graph").output.pop();
    assert_eq!(
        describe(run_x(&load(&only).expect("it loads"), &[1], &[1.0])),
        "UnsupportedOperation: tensors of wasi:nn can hold none of the model's outputs: \"short\" (uint16 [N])"
    );
}

#[test]
fn models_can_be_used_on_any_thread() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<LoadedModels>();
    is_send_and_sync::<LoadedModel>();
}

/// Two inputs, one of which has a default, and two outputs.
fn two() -> ModelProto {
    model(
        vec![node("Add", &["a", "b"], &["sum"]), node("Mul", &["b", "by"], &["times"])],
        vec![
            port("a", DataType::Float, "N 4"),
            port("by", DataType::Float, "1"),
            port("b", DataType::Float, "N 4"),
        ],
        vec![port("sum", DataType::Float, "N 4"), port("times", DataType::Float, "N 4")],
        vec![floats("by", &[1], &[3.0])],
    )
}

#[test]
fn inputs_may_be_in_any_order() {
    let model = load(&two()).expect("it loads");
    let a = raw!([1.0_f32; 4]);
    let b = raw!([2.0_f32; 4]);
    let outputs = model
        .run(&[
            view("b", NnTensorType::F32, &[1, 4], &b),
            view("a", NnTensorType::F32, &[1, 4], &a),
        ])
        .expect("it runs");
    assert_eq!((f32s(&outputs[0]), f32s(&outputs[1])), (vec![3.0; 4], vec![6.0; 4]));
}

#[test]
fn wrong_input_errors_say_what_was_expected() {
    let model = load(&two()).expect("it loads");
    let eight = [0; 32];
    let f32 = NnTensorType::F32;
    let a = view("a", f32, &[2, 4], &eight);
    let b = view("b", f32, &[2, 4], &eight);
    let big = [u32::MAX, 4];
    let cases: [&[TensorView<'_>]; 9] = [
        &[a],
        &[a, b, view("c", f32, &[1], &eight[..4])],
        &[a, b, view("by", f32, &[1], &eight[..4])],
        &[a, a, b],
        &[a, view("b", NnTensorType::I64, &[2, 2], &eight)],
        &[a, view("b", f32, &[4, 2], &eight)],
        &[a, view("b", f32, &[8], &eight)],
        &[view("a", f32, &[1, 4], &eight[..16]), b],
        &[a, view("b", f32, &big, &eight)],
    ];
    let mut texts: Vec<String> = cases.iter().map(|inputs| describe(model.run(inputs))).collect();
    texts.push(describe(load(&layer()).expect("it loads").run(&[view("x", f32, &[2, 2], &eight)])));
    insta::assert_snapshot!(texts.join("\n"), @r#"
    InvalidArgument: input "b" is missing; the model takes "a" (f32 [N, 4]), "b" (f32 [N, 4])
    InvalidArgument: there is no input "c"; the model takes "a" (f32 [N, 4]), "b" (f32 [N, 4])
    InvalidArgument: there is no input "by"; the model takes "a" (f32 [N, 4]), "b" (f32 [N, 4])
    InvalidArgument: input "a" is given twice
    InvalidArgument: input "b": expected f32 [N, 4], got i64 [2, 2]
    InvalidArgument: input "b": expected f32 [N, 4], got f32 [4, 2]
    InvalidArgument: input "b": expected f32 [N, 4], got f32 [8]
    InvalidArgument: input "b": expected f32 [N, 4] with N = 1 as in input "a", got f32 [2, 4]
    InvalidArgument: input "b": expected f32 [N, 4] with N = 2 as in input "a", got f32 [4294967295, 4]
    InvalidArgument: input "x": f32 [2, 2] is 16 bytes, got 32
    "#);
}
