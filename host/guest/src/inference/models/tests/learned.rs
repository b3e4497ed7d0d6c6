//! Operators of scikit-learn pipelines: results, and variants that are refused.

use super::*;
use crate::inference::models::samples::{int, ints, model, node, port, reals, texts, trees};
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::{AttributeProto, type_proto};

fn string(name: &str, value: &str) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        r#type: AttributeType::String as i32,
        s: value.as_bytes().to_vec(),
        ..AttributeProto::default()
    }
}

/// A model with one node and an input `x` with these columns.
fn learned(
    op_type: &str,
    columns: &str,
    outputs: &[(&str, DataType, &str)],
    attributes: Vec<AttributeProto>,
) -> ModelProto {
    let names: Vec<&str> = outputs.iter().map(|(name, ..)| *name).collect();
    let mut node = node(op_type, &["x"], &names);
    node.domain = "ai.onnx.ml".to_owned();
    node.attribute = attributes;
    let outputs = outputs.iter().map(|(name, ty, shape)| port(name, *ty, shape)).collect();
    let x = port("x", DataType::Float, &format!("N {columns}"));
    model(vec![node], vec![x], outputs, Vec::new())
}

fn rows(op_type: &str, columns: &str, attributes: Vec<AttributeProto>) -> ModelProto {
    learned(op_type, columns, &[("y", DataType::Float, "N ?")], attributes)
}

fn classes(op_type: &str, attributes: Vec<AttributeProto>) -> ModelProto {
    let outputs = [("label", DataType::Int64, "N"), ("scores", DataType::Float, "N ?")];
    learned(op_type, "2", &outputs, attributes)
}

fn assert_near(got: &[f32], expected: &[f32]) {
    let apart = got.iter().zip(expected).any(|(a, b)| (a - b).abs() > 1e-6);
    assert!(got.len() == expected.len() && !apart, "{got:?}, expected {expected:?}");
}

/// The numbers of the only output, for two rows of two columns.
fn computed(proto: &ModelProto, x: [f32; 4]) -> Vec<f32> {
    let outputs = run_x(&load(proto).expect("it loads"), &[2, 2], &x).expect("it runs");
    f32s(&outputs[0])
}

#[test]
fn columns_are_scaled_normed_and_filled() {
    let scaler = vec![reals("offset", &[1.0, 2.0]), reals("scale", &[2.0, 0.5])];
    assert_near(
        &computed(&rows("Scaler", "2", scaler), [1.0, 4.0, 3.0, 2.0]),
        &[0.0, 1.0, 4.0, 0.0],
    );
    let one = vec![reals("offset", &[1.0]), reals("scale", &[2.0])];
    assert_near(&computed(&rows("Scaler", "2", one), [1.0, 4.0, 3.0, 2.0]), &[0.0, 6.0, 4.0, 2.0]);
    for (norm, expected) in [
        ("L1", [3.0 / 7.0, -4.0 / 7.0, 0.0, 0.0]),
        ("L2", [0.6, -0.8, 0.0, 0.0]),
        ("MAX", [1.0, -4.0 / 3.0, 0.0, 0.0]),
    ] {
        let normalizer = rows("Normalizer", "2", vec![string("norm", norm)]);
        assert_near(&computed(&normalizer, [3.0, -4.0, 0.0, 0.0]), &expected);
    }
    let mut missing = reals("replaced_value_float", &[]);
    missing.r#type = AttributeType::Float as i32;
    missing.f = f32::NAN;
    let imputer = vec![reals("imputed_value_floats", &[7.0, 8.0]), missing];
    let imputer = rows("Imputer", "2", imputer);
    assert_near(&computed(&imputer, [f32::NAN, 4.0, 3.0, f32::NAN]), &[7.0, 4.0, 3.0, 8.0]);
}

#[test]
fn categories_become_columns() {
    let mut proto = learned(
        "OneHotEncoder",
        "1",
        &[("y", DataType::Float, "N 1 3")],
        vec![ints("cats_int64s", &[5, -2, 9])],
    );
    let outputs = run_x(&load(&proto).expect("it loads"), &[3, 1], &[-2.0, 9.0, 4.0]);
    let outputs = outputs.expect("it runs");
    assert_eq!(outputs[0].dims, [3, 1, 3]);
    assert_eq!(f32s(&outputs[0]), [0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    // An unknown category can be an error.
    proto.graph.as_mut().expect("a graph").node[0].attribute.push(int("zeros", 0));
    let refused = describe(run_x(&load(&proto).expect("it loads"), &[1, 1], &[4.0]));
    assert!(refused.contains("there is no category 4"), "{refused}");
}

#[test]
fn linear_classifiers_of_one_and_of_several_rows() {
    let three = vec![
        ints("classlabels_ints", &[7, 8, 9]),
        reals("coefficients", &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]),
        reals("intercepts", &[0.0, 0.5, -1.0]),
        string("post_transform", "SOFTMAX"),
    ];
    let model = load(&classes("LinearClassifier", three)).expect("it loads");
    let outputs = run_x(&model, &[1, 2], &[2.0, 1.0]).expect("it runs");
    assert_eq!(i64s(&outputs[0]), [7]);
    let [a, b] = [1.0 / (2.0 + (-0.5_f32).exp()), (-0.5_f32).exp() / (2.0 + (-0.5_f32).exp())];
    assert_near(&f32s(&outputs[1]), &[a, b, a]);

    let one = vec![
        ints("classlabels_ints", &[7, 8]),
        reals("coefficients", &[1.0, -1.0]),
        reals("intercepts", &[0.0]),
        string("post_transform", "LOGISTIC"),
    ];
    let model = load(&classes("LinearClassifier", one)).expect("it loads");
    let outputs = run_x(&model, &[2, 2], &[1.0, 0.0, 0.0, 1.0]).expect("it runs");
    assert_eq!(i64s(&outputs[0]), [8, 7]);
    let p = 1.0 / (1.0 + (-1.0_f32).exp());
    assert_near(&f32s(&outputs[1]), &[1.0 - p, p, p, 1.0 - p]);
}

/// Two trees, `x0 <= 0` and `x1 > 1`, whose leaves have these weights.
fn forest(weights: [f32; 4], other: Vec<AttributeProto>) -> Vec<AttributeProto> {
    let mut attributes = vec![
        ints("nodes_treeids", &[0, 0, 0, 1, 1, 1]),
        ints("nodes_nodeids", &[0, 1, 2, 0, 1, 2]),
        ints("nodes_featureids", &[0, 0, 0, 1, 0, 0]),
        texts("nodes_modes", &["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_GT", "LEAF", "LEAF"]),
        reals("nodes_values", &[0.0, 0.0, 0.0, 1.0, 0.0, 0.0]),
        ints("nodes_truenodeids", &[1, 0, 0, 1, 0, 0]),
        ints("nodes_falsenodeids", &[2, 0, 0, 2, 0, 0]),
        ints("nodes_missing_value_tracks_true", &[1, 0, 0, 0, 0, 0]),
    ];
    let prefix = if other.iter().any(|attribute| attribute.name == "n_targets") {
        "target"
    } else {
        "class"
    };
    let named = |part: &str| format!("{prefix}_{part}");
    attributes.extend([
        ints(&named("treeids"), &[0, 0, 1, 1]),
        ints(&named("nodeids"), &[1, 2, 1, 2]),
        ints(&named("ids"), &[0, 0, 0, 0]),
        reals(&named("weights"), &weights),
    ]);
    attributes.extend(other);
    attributes
}

#[test]
fn forests_of_two_classes_vote_for_the_second() {
    let labels = ints("classlabels_int64s", &[3, 4]);
    let probability = forest([0.5, 0.1, 0.4, 0.0], vec![labels.clone()]);
    let model = load(&classes("TreeEnsembleClassifier", probability)).expect("it loads");
    // A missing value takes the branch that its node sets.
    let x = [0.0, 2.0, 1.0, 0.0, f32::NAN, f32::NAN];
    let outputs = run_x(&model, &[3, 2], &x).expect("it runs");
    assert_eq!(i64s(&outputs[0]), [4, 3, 3]);
    assert_near(&f32s(&outputs[1]), &[0.1, 0.9, 0.9, 0.1, 0.5, 0.5]);

    let other = vec![labels, reals("base_values", &[0.5]), string("post_transform", "LOGISTIC")];
    let boosted = forest([1.0, -1.0, 0.5, -0.5], other);
    let model = load(&classes("TreeEnsembleClassifier", boosted)).expect("it loads");
    let outputs = run_x(&model, &[2, 2], &[0.0, 2.0, 1.0, 0.0]).expect("it runs");
    assert_eq!(i64s(&outputs[0]), [4, 3]);
    let (two, one) = (1.0 / (1.0 + (-2.0_f32).exp()), 1.0 / (1.0 + 1.0_f32.exp()));
    assert_near(&f32s(&outputs[1]), &[1.0 - two, two, 1.0 - one, one]);
}

#[test]
fn trees_of_regressors_are_added_up() {
    for (function, expected) in [("SUM", [16.0, 23.0]), ("AVERAGE", [13.0, 16.5])] {
        let other = vec![
            int("n_targets", 1),
            reals("base_values", &[10.0]),
            string("aggregate_function", function),
        ];
        let regressor = rows("TreeEnsembleRegressor", "2", forest([1.0, 6.0, 5.0, 7.0], other));
        assert_near(&computed(&regressor, [0.0, 2.0, 1.0, 0.0]), &expected);
    }
}

fn svm_attributes(other: Vec<AttributeProto>) -> Vec<AttributeProto> {
    let mut attributes = vec![
        ints("classlabels_ints", &[3, 4]),
        ints("vectors_per_class", &[1, 1]),
        reals("support_vectors", &[1.0, 0.0, 0.0, 1.0]),
        reals("coefficients", &[1.0, -2.0]),
        reals("rho", &[0.5]),
        reals("kernel_params", &[1.0, 0.0, 2.0]),
    ];
    attributes.retain(|old| other.iter().all(|new| new.name != old.name));
    attributes.extend(other);
    attributes
}

#[test]
fn each_kernel_compares_rows_with_support_vectors() {
    // Each kernel's values for the row (2, 1): with the vector (1, 0), and with (0, 1).
    let kernels =
        [("LINEAR", 2.0, 1.0), ("POLY", 4.0, 1.0), ("RBF", (-2.0_f32).exp(), (-4.0_f32).exp())];
    for (kernel, a, b) in kernels {
        let svm = classes("SVMClassifier", svm_attributes(vec![string("kernel_type", kernel)]));
        let outputs = run_x(&load(&svm).expect("it loads"), &[1, 2], &[2.0, 1.0]);
        let outputs = outputs.expect("it runs");
        let score = a - 2.0 * b + 0.5;
        assert_eq!(i64s(&outputs[0]), [if score > 0.0 { 3 } else { 4 }], "{kernel}");
        assert_near(&f32s(&outputs[1]), &[-score, score]);
    }
    let other = vec![int("n_supports", 2), string("kernel_type", "LINEAR")];
    let regressor = rows("SVMRegressor", "2", svm_attributes(other));
    assert_near(&computed(&regressor, [2.0, 1.0, 0.0, 1.0]), &[0.5, -1.5]);
}

/// String labels cannot be returned, but the scores can.
#[test]
fn scores_remain_without_maps_and_string_labels() {
    let strings = texts("classlabels_strings", &["ham", "spam"]);
    let attributes = vec![
        strings.clone(),
        reals("coefficients", &[1.0, -1.0]),
        reals("intercepts", &[0.0]),
        string("post_transform", "LOGISTIC"),
    ];
    let mut proto = classes("LinearClassifier", attributes);
    let graph = proto.graph.as_mut().expect("a graph");
    let mut zip = node("ZipMap", &["scores"], &["output_probability"]);
    zip.domain = "ai.onnx.ml".to_owned();
    zip.attribute = vec![strings];
    graph.node.push(zip);
    graph.output =
        vec![port("label", DataType::String, "N"), port("output_probability", DataType::Float, "")];
    if let Some(ty) = &mut graph.output[1].r#type {
        ty.value = None::<type_proto::Value>;
    }
    let model = load(&proto).expect("it loads");
    let shown: Vec<String> = model.facts().outputs.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["string [N]", "f32 [?, 2]"]);
    let outputs = run_x(&model, &[1, 2], &[0.0, 0.0]).expect("it runs");
    assert_eq!(outputs.len(), 1);
    assert_eq!(outputs[0].name, "output_probability");
    assert_near(&f32s(&outputs[0]), &[0.5, 0.5]);
}

#[test]
fn inconsistent_attributes_are_refused() {
    let refused = |proto: &ModelProto| {
        let text = describe(load(proto));
        text.replace("the model from bytes: ", "")
    };
    let linear = |attributes| refused(&classes("LinearClassifier", attributes));
    let svm = |other| refused(&classes("SVMClassifier", svm_attributes(other)));
    let texts = [
        refused(&rows("Scaler", "2", vec![reals("offset", &[1.0])])),
        refused(&rows("Normalizer", "2", vec![string("norm", "L3")])),
        refused(&rows("Imputer", "2", Vec::new())),
        refused(&rows("OneHotEncoder", "2", vec![ints("cats_int64s", &[1, 1])])),
        linear(vec![reals("intercepts", &[1.0])]),
        linear(vec![ints("classlabels_ints", &[0, 1, 2]), reals("intercepts", &[1.0, 2.0])]),
        linear(vec![
            ints("classlabels_ints", &[0, 1]),
            reals("intercepts", &[1.0, 2.0]),
            reals("coefficients", &[1.0, 2.0, 3.0]),
        ]),
        svm(vec![ints("vectors_per_class", &[1, -1])]),
        svm(vec![ints("vectors_per_class", &[i64::MAX, i64::MAX])]),
        svm(vec![reals("coefficients", &[1.0])]),
        svm(vec![reals("rho", &[])]),
        svm(vec![reals("prob_a", &[1.0])]),
        svm(vec![reals("kernel_params", &[1.0])]),
        svm(vec![string("kernel_type", "CUBE")]),
        svm(vec![reals("support_vectors", &[1.0, 2.0, 3.0])]),
        refused(&rows(
            "TreeEnsembleRegressor",
            "2",
            forest([0.0; 4], vec![int("n_targets", i64::MAX)]),
        )),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r#"
    InvalidEncoding: its Scaler has 1 offsets and 0 scales; it takes one offset and one scale for each column
    InvalidEncoding: its Normalizer has a norm other than MAX, L1 and L2
    UnsupportedOperation: it needs Imputer of whole numbers, which tract does not have; ONNX Runtime may support it: run "pip install onnxruntime" in the active virtual environment, or name its library with --onnxruntime PATH, and remove backend: tract
    InvalidEncoding: its OneHotEncoder has no categories, or has a category twice
    InvalidEncoding: its LinearClassifier has no labels
    InvalidEncoding: its LinearClassifier has 2 intercepts; it takes 3
    InvalidEncoding: its LinearClassifier has 3 coefficients; it takes 2
    InvalidEncoding: its SVMClassifier has a class with -1 support vectors
    InvalidEncoding: its SVMClassifier has 18446744073709551614 support vectors with 4 numbers in total
    InvalidEncoding: its SVMClassifier has 1 coefficients; it takes 2
    InvalidEncoding: its SVMClassifier has 0 numbers in rho; it takes 1
    InvalidEncoding: its SVMClassifier has 0 numbers in prob_b; it takes 1
    InvalidEncoding: its SVMClassifier has 1 kernel_params; it takes 3
    InvalidEncoding: its SVMClassifier has a kernel that is not known
    InvalidEncoding: its SVMClassifier has 2 support vectors with 3 numbers in total
    InvalidEncoding: its TreeEnsembleRegressor has 9223372036854775807 targets
    "#);
}

#[test]
fn another_number_of_columns_is_an_error() {
    let attributes = vec![reals("offset", &[1.0, 2.0]), reals("scale", &[2.0, 0.5])];
    let model = load(&rows("Scaler", "?", attributes)).expect("it loads");
    let refused = describe(run_x(&model, &[1, 3], &[0.0; 3]));
    assert!(refused.contains("Scaler does not take 3 columns"), "{refused}");
    let model = load(&trees(vec![ints("nodes_featureids", &[900, 0, 0])])).expect("it loads");
    let refused = describe(run_x(&model, &[1, 4], &[0.0; 4]));
    assert!(refused.contains("TreeEnsembleClassifier does not take 4 columns"), "{refused}");
}

/// Whatever the attributes are, a model is refused or computes; it never panics.
#[test]
fn arbitrary_attributes_cause_no_panic() {
    let good = [
        classes("SVMClassifier", svm_attributes(vec![string("kernel_type", "RBF")])),
        classes(
            "TreeEnsembleClassifier",
            forest([0.5, 0.1, 0.4, 0.0], vec![ints("classlabels_int64s", &[3, 4])]),
        ),
        rows("TreeEnsembleRegressor", "2", forest([1.0; 4], vec![int("n_targets", 1)])),
    ];
    let wild = [i64::MIN, -1, 0, 1, 2, 7, i64::from(u32::MAX), i64::MAX];
    let mut computed = 0;
    for proto in &good {
        let attributes = proto.graph.as_ref().expect("a graph").node[0].attribute.clone();
        for (at, attribute) in attributes.iter().enumerate() {
            for index in 0..attribute.ints.len().max(1) {
                for value in wild {
                    let mut proto = proto.clone();
                    let changed = &mut proto.graph.as_mut().expect("a graph").node[0].attribute[at];
                    changed.i = value;
                    match changed.ints.get_mut(index) {
                        Some(number) => *number = value,
                        None => changed.floats.truncate(usize::try_from(value).unwrap_or(0)),
                    }
                    let Ok(model) = load(&proto) else { continue };
                    let done = run_x(&model, &[2, 2], &[0.5, 1.5, f32::NAN, -1.0]);
                    computed += usize::from(done.is_ok());
                    let text = describe(done);
                    assert!(!text.contains("index out of"), "{text}");
                }
            }
        }
    }
    assert!(computed > 50, "{computed}");
}
