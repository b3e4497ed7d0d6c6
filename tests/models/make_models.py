#!/usr/bin/env python3
"""Makes the models in this folder. They are committed, so run this program only to change them.

The models are small and of typical kinds. The folder hostile/ has models that are broken or do harm. The seeds are fixed,
but two runs may still write different bytes. Needs onnx 1.23, scikit-learn 1.9 and skl2onnx 1.20.
"""

import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import to_onnx
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

FOLDER = Path(__file__).resolve().parent
OPSETS = {"": 17, "ai.onnx.ml": 3}
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
GENERATOR = np.random.default_rng(20261121)
node = helper.make_node


def main():
    (FOLDER / "hostile").mkdir(exist_ok=True)
    save_networks()
    save_models_of_all_types()
    save_trained_models()
    save_hostile_models()
    for path in sorted(FOLDER.rglob("*.onnx")):
        if path.stat().st_size > 100_000:
            sys.exit(f"make_models: {path.name} is too large for the repository")


def small_weights(*shape):
    """Random weights. They are small, so that softmax returns values between 0 and 1."""
    return (GENERATOR.standard_normal(shape) * 0.1).astype("f")


def model(nodes, inputs, outputs, initializers):
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(*port) for port in inputs],
        [helper.make_tensor_value_info(*port) for port in outputs],
        [numpy_helper.from_array(value, name) for name, value in initializers.items()],
    )
    opsets = [helper.make_opsetid(*opset) for opset in OPSETS.items()]
    onnx_model = helper.make_model(graph, opset_imports=opsets, producer_name="make_models")
    onnx_model.ir_version = 8
    return onnx_model


def save(name, onnx_model):
    """`onnx_model`: a model, or the bytes of a file."""
    content = onnx_model if isinstance(onnx_model, bytes) else onnx_model.SerializeToString()
    (FOLDER / f"{name}.onnx").write_bytes(content)


# --- ordinary -----------------------------------------------------------------------------------


def mlp():
    return model(
        [
            node("MatMul", ["x", "W1"], ["a"]),
            node("Add", ["a", "b1"], ["b"]),
            node("Relu", ["b"], ["c"]),
            node("Gemm", ["c", "W2", "b2"], ["d"]),
            node("Softmax", ["d"], ["y"]),
        ],
        [("x", FLOAT, ["N", 64])],
        [("y", FLOAT, ["N", 10])],
        {"W1": small_weights(64, 32), "b1": small_weights(32), "W2": small_weights(32, 10), "b2": small_weights(10)},
    )


def save_networks():
    save("mlp", mlp())
    convolution = [
        node("Conv", ["x", "K", "k"], ["a"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["a", "scale", "shift", "mean", "var"], ["b"]),
        node("Relu", ["b"], ["c"]),
        node("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["d"], ["e"]),
        node("Flatten", ["e"], ["f"]),
        node("Gemm", ["f", "W", "w"], ["y"], transB=1),
    ]
    weights = {"K": small_weights(8, 1, 3, 3), "W": small_weights(10, 8), "w": small_weights(10)}
    weights |= {name: small_weights(8) for name in ("k", "scale", "shift", "mean")}
    weights["var"] = np.abs(small_weights(8)) + 1
    save("cnn", model(
        convolution, [("x", FLOAT, ["N", 1, 8, 8])], [("y", FLOAT, ["N", 10])], weights
    ))
    attention = [
        *(node("MatMul", ["x", name.upper()], [name]) for name in "qkv"),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["y"]),
    ]
    save("attention", model(
        attention,
        [("x", FLOAT, ["N", "L", 8])],
        [("y", FLOAT, ["N", "L", 8])],
        {name: small_weights(8, 8) for name in "QKV"},
    ))
    nodes = [node("Add", ["a", "b"], ["sum"]), node("Mul", ["a", "b"], ["product"])]
    ports = [[(name, FLOAT, ["N", 4]) for name in names] for names in (("a", "b"), ("sum", "product"))]
    save("two_inputs_two_outputs", model(nodes, *ports, {}))


def save_models_of_all_types():
    embedding = [
        node("Gather", ["table", "ids"], ["e"], axis=0),
        node("ReduceMean", ["e"], ["mean"], axes=[1], keepdims=0),
        node("ArgMax", ["mean"], ["best"], axis=1, keepdims=0),
    ]
    save("embedding_i64", model(
        embedding,
        [("ids", INT64, ["N", "L"])],
        [("mean", FLOAT, ["N", 16]), ("best", INT64, ["N"])],
        {"table": small_weights(100, 16)},
    ))
    image = [
        node("Cast", ["image"], ["c"], to=FLOAT),
        node("Div", ["c", "sixteen"], ["d"]),
        node("Reshape", ["d", "flat"], ["r"]),
        node("MatMul", ["r", "W"], ["y"]),
    ]
    save("image_u8", model(
        image,
        [("image", TensorProto.UINT8, ["N", 8, 8])],
        [("y", FLOAT, ["N", 10])],
        {"sixteen": np.array(16, "f"), "flat": np.array([-1, 64], "i8"), "W": small_weights(64, 10)},
    ))
    # The sums of these numbers are exact in f16, so the order of addition does not matter.
    halves = (GENERATOR.integers(-8, 9, (4, 3)) / 8).astype("f2")
    for name, kind, weights in (
        ("linear_f64", TensorProto.DOUBLE, GENERATOR.standard_normal((4, 3))),
        ("linear_f16", TensorProto.FLOAT16, halves),
    ):
        save(name, model(
            [node("MatMul", ["x", "W"], ["y"])], [("x", kind, ["N", 4])], [("y", kind, ["N", 3])],
            {"W": weights},
        ))
    save("offset_i32", model(
        [node("Add", ["x", "offset"], ["y"])],
        [("x", TensorProto.INT32, ["N", 4])],
        [("y", TensorProto.INT32, ["N", 4])],
        {"offset": np.array([1, -2, 3, -4], "i4")},
    ))


def save_trained_models():
    """Models that scikit-learn trains and skl2onnx writes. They use the operators of ONNX-ML."""
    iris, digits, diabetes = (load(return_X_y=True) for load in (load_iris, load_digits, load_diabetes))
    digits = (digits[0] / 16, digits[1])
    # Scale the inputs to the range of the numbers that reference.py makes.
    diabetes = (diabetes[0] * 20 + 2, diabetes[1])
    estimators = {
        "logistic_regression": (LogisticRegression(max_iter=500), iris),
        "digits_mlp": (MLPClassifier((64,), max_iter=60, random_state=1), digits),
        "random_forest": (RandomForestClassifier(10, random_state=1), iris),
        "boosted_trees": (GradientBoostingClassifier(n_estimators=10, random_state=1), iris),
        # These use the operators Scaler and TreeEnsembleRegressor, which tract itself does not have.
        "scaled_regression": (make_pipeline(StandardScaler(), LogisticRegression()), iris),
        "boosted_regressor": (GradientBoostingRegressor(n_estimators=10, random_state=1), diabetes),
    }
    for name, (estimator, (inputs, targets)) in estimators.items():
        estimator.fit(inputs, targets)
        options = {"zipmap": False} if hasattr(estimator, "predict_proba") else None
        onnx_model = to_onnx(
            estimator,
            inputs[:1].astype("f"),
            target_opset=OPSETS,
            options={id(estimator): options} if options else None,
        )
        save(name, onnx_model)


# --- hostile ------------------------------------------------------------------------------------


def save_hostile_models():
    def bad(name, onnx_model):
        save(f"hostile/{name}", onnx_model)

    one_input = [("x", FLOAT, [1])]
    any_shape = [("y", FLOAT, None)]
    good = mlp().SerializeToString()
    bad("truncated", good[: len(good) // 2])
    bad("garbage", GENERATOR.bytes(5000))
    bad("empty", b"")

    for name, dims in (("overflowing_dims", [1 << 40, 1 << 40]), ("short_data", [64, 33])):
        onnx_model = mlp()
        onnx_model.graph.initializer[0].dims[:] = dims
        bad(name, onnx_model)
    onnx_model = mlp()
    weights = onnx_model.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="../../../../../../etc/passwd")
    bad("data_elsewhere", onnx_model)

    bad("unknown_operator", model([node("Frobnicate", ["x"], ["y"])], one_input, one_output(), {}))
    bad("no_such_output", model([node("Relu", ["x"], ["z"])], one_input, one_output(), {}))
    bad("wrong_types", model(
        [node("MatMul", ["x", "W"], ["y"])], [("x", FLOAT, [1, 4])], [("y", FLOAT, [1, 3])],
        {"W": np.ones((4, 3), "i8")},
    ))
    # `huge_constant` takes 16 TB when it is loaded, `expand_bomb` 16 GB when it runs.
    bad("huge_constant", model(
        [node("ConstantOfShape", ["s"], ["c"]), node("Add", ["x", "c"], ["y"])], one_input, any_shape,
        {"s": np.array([1 << 20, 1 << 22], "i8")},
    ))
    bad("expand_bomb", model(
        [node("Expand", ["x", "s"], ["c"]), node("ReduceSum", ["c"], ["y"], keepdims=0)],
        one_input, any_shape, {"s": np.array([1 << 16, 1 << 16], "i8")},
    ))
    bad("endless_loop", model(
        [node("Loop", ["", "true", "x"], ["y"], body=loop_body())], one_input, one_output(),
        {"true": np.array(True)},
    ))
    bad("deep", deeply_nested())
    bad("tree_cycle", tree(nodes_truenodeids=[0, 0, 0], nodes_falsenodeids=[0, 0, 0]))
    bad("tree_class_out_of_bounds", tree(class_ids=[1 << 20, 1 << 21]))
    bad("tree_node_out_of_bounds", tree(nodes_truenodeids=[77, 0, 0]))


def one_output():
    return [("y", FLOAT, [1])]


def loop_body():
    """The body of an endless loop, which adds one."""
    info = helper.make_tensor_value_info
    return helper.make_graph(
        [node("Identity", ["go_on"], ["still"]), node("Add", ["value", "one"], ["next"])],
        "body",
        [info("turn", INT64, []), info("go_on", TensorProto.BOOL, []), info("value", FLOAT, [1])],
        [info("still", TensorProto.BOOL, []), info("next", FLOAT, [1])],
        [numpy_helper.from_array(np.ones(1, "f"), "one")],
    )


def deeply_nested():
    """Nested branches: a recursive parser needs a deep stack for them. onnx refuses to build them, so this
    function writes the bytes of the protobuf messages. Field numbers are those of onnx.proto."""

    def field(number, content):
        length, varint = len(content), bytearray()
        while length > 0x7F:
            varint.append(length & 0x7F | 0x80)
            length >>= 7
        return bytes([number << 3 | 2, *varint, length]) + content

    inner = node("Relu", ["x"], ["y"]).SerializeToString()
    output = helper.make_tensor_value_info("y", FLOAT, [1]).SerializeToString()
    outer = node("If", ["c"], ["y"]).SerializeToString()
    for _ in range(300):
        graph = field(1, inner) + field(2, b"branch") + field(12, output)
        branch = field(1, b"then_branch") + field(6, graph) + bytes([0xA0, 1, 5])
        inner = outer + field(5, branch)
    # The appended field 7 is the graph. protobuf merges it with the graph of the model.
    inputs = [("x", FLOAT, [1]), ("c", TensorProto.BOOL, [])]
    return model([], inputs, one_output(), {}).SerializeToString() + field(7, field(1, inner))


def tree(**changed):
    """A tree with one split and two leaves. `changed`: attributes that replace the defaults."""
    attributes = {
        "classlabels_int64s": [0, 1, 2],
        "class_ids": [0, 1],
        "class_nodeids": [1, 2],
        "class_treeids": [0, 0],
        "class_weights": [1.0, 1.0],
        "nodes_falsenodeids": [2, 0, 0],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_nodeids": [0, 1, 2],
        "nodes_treeids": [0, 0, 0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_values": [0.0, 0.0, 0.0],
        "post_transform": "NONE",
        **changed,
    }
    return model(
        [node("TreeEnsembleClassifier", ["x"], ["l", "p"], domain="ai.onnx.ml", **attributes)],
        [("x", FLOAT, ["N", 4])],
        [("l", INT64, ["N"]), ("p", FLOAT, ["N", 3])],
        {},
    )


if __name__ == "__main__":
    main()
