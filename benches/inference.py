#!/usr/bin/env python3
"""The Python side of the inference benchmark: does the same work as Sandmill's jobs. Also makes the models and
images of the benchmark.

    inference.py models FOLDER                       mlp.onnx, cnn.onnx and resnet.onnx
    inference.py layers FILE                         the perceptron of benches/kernels as a model
    inference.py images FOLDER COUNT FROM            COUNT copies of the PNG files in FROM
    inference.py loop MODEL IMAGES BATCH,BATCH..     seconds of one call of the model, for each batch size
    inference.py digits FOLDER MODEL OUTPUT WORKERS  classifies digits, a row for each PNG file

`benches/run.py` runs this program in a separate virtual environment, with onnx, onnxruntime, numpy and pillow.
"""

import itertools
import multiprocessing
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime

# The number of files that are read, decoded and classified together. The job's mini-batches have the same size.
CHUNK_FILES = 250


def main():
    command, *arguments = sys.argv[1:]
    {"models": models, "layers": layers, "images": images, "loop": loop, "digits": digits}[command](*arguments)


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def loop(model, images, batches):
    network = session(model)
    port = network.get_inputs()[0]
    rows = []
    for batch in map(int, batches.split(",")):
        shape = [batch, *port.shape[1:]]
        pixels = (np.arange(np.prod(shape)) % 17 / 16).astype("f").reshape(shape)
        calls = max(int(images) // batch, 1)
        # The first call only warms up.
        network.run(None, {port.name: pixels})
        start = time.perf_counter()
        for _ in range(calls):
            network.run(None, {port.name: pixels})
        rows.append(f"{batch} {(time.perf_counter() - start) / calls:e}")
    print(";".join(rows))


# --- digits -------------------------------------------------------------------------------------


def prepare(model):
    """Loads the model in a process of the pool."""
    global network
    network = session(model)


def identify(files):
    from PIL import Image

    pixels = [np.asarray(Image.open(file), "f").reshape(64) / 15 / 16 for file in files]
    name = network.get_inputs()[0].name
    (probabilities,) = network.run(["probabilities"], {name: np.stack(pixels)})
    return [f"{file.name}: {digit}\n" for file, digit in zip(files, probabilities.argmax(axis=1))]


def digits(folder, model, output, workers):
    files = sorted(Path(folder).rglob("*.png"))
    chunks = [files[start : start + CHUNK_FILES] for start in range(0, len(files), CHUNK_FILES)]
    with multiprocessing.Pool(int(workers), prepare, [model]) as pool, open(output, "w") as rows:
        for lines in pool.imap_unordered(identify, chunks):
            rows.writelines(lines)


# --- models and images --------------------------------------------------------------------------


def images(folder, count, source):
    """Writes copies of the files into folders of a thousand files. Links would share their data on the disk."""
    contents = [path.read_bytes() for path in sorted(Path(source).glob("*.png"))]
    for number, content in zip(range(int(count)), itertools.cycle(contents)):
        path = Path(folder) / f"d{number // 1000:03}" / f"img_{number:06}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def models(folder):
    folder = Path(folder)
    folder.mkdir(parents=True)
    random = np.random.default_rng(20261121)

    def weights(*shape):
        return (random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype("f")

    save(folder / "mlp.onnx", ["N", 64], 10, *perceptron(weights))
    save(folder / "cnn.onnx", ["N", 1, 28, 28], 10, *convolutions(weights))
    save(folder / "resnet.onnx", ["N", 3, 224, 224], 1000, *residual(weights))


def layers(path):
    """Makes a perceptron with two hidden layers of 128 neurons. It has the same weights as
    `benches/kernels/perceptron.rs`."""
    from onnx.helper import make_node as node

    state = 0x5EED_0003

    def weights(*shape):
        nonlocal state
        numbers = []
        for _ in range(np.prod(shape)):
            state = (state * 1_664_525 + 1_013_904_223) % 2**32
            numbers.append((state >> 16) / 65_536 - 0.5)
        return np.array(numbers, "f").reshape(shape)

    values = {"W1": weights(10, 128), "W2": weights(128, 128) / 8, "W3": weights(128, 1) / 8}
    nodes = [
        node("MatMul", ["x", "W1"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("MatMul", ["b", "W2"], ["c"]),
        node("Relu", ["c"], ["d"]),
        node("MatMul", ["d", "W3"], ["y"]),
    ]
    save(path, ["N", 10], 1, nodes, {name: value.astype("f") for name, value in values.items()})


def save(path, shape, classes, nodes, initializers):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", classes])],
        [numpy_helper.from_array(value, name) for name, value in initializers.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


def perceptron(weights):
    """A network with 64 inputs, 32 hidden neurons and 10 outputs, like the one of examples/digit-identification."""
    from onnx.helper import make_node as node

    nodes = [
        node("Gemm", ["x", "W1", "b1"], ["a"], transB=1),
        node("Relu", ["a"], ["b"]),
        node("Gemm", ["b", "W2", "b2"], ["c"], transB=1),
        node("Softmax", ["c"], ["y"]),
    ]
    values = {"W1": weights(32, 64), "b1": weights(32), "W2": weights(10, 32), "b2": weights(10)}
    return nodes, values


def convolutions(weights):
    """Two convolutions and a dense layer over 28 x 28 pixels, as used for handwritten digits."""
    from onnx.helper import make_node as node

    nodes = [
        node("Conv", ["x", "K1"], ["a"], pads=[1] * 4),
        node("Relu", ["a"], ["b"]),
        node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["c", "K2"], ["d"], pads=[1] * 4),
        node("Relu", ["d"], ["e"]),
        node("MaxPool", ["e"], ["f"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["f"], ["g"]),
        node("Gemm", ["g", "W"], ["y"], transB=1),
    ]
    return nodes, {"K1": weights(8, 1, 3, 3), "K2": weights(16, 8, 3, 3), "W": weights(10, 784)}


def residual(weights):
    """A network of the size of ResNet-18: 11.7 million weights, and 1.8 billion multiplications for each
    image."""
    from onnx.helper import make_node as node

    nodes, values = [], {}

    def convolution(x, name, channels, kernel, input_channels, stride=1):
        values[name] = weights(channels, input_channels, kernel, kernel)
        pads = [kernel // 2] * 4
        nodes.append(node("Conv", [x, name], [f"{name}_out"], pads=pads, strides=[stride] * 2))
        return f"{name}_out"

    def relu(x):
        nodes.append(node("Relu", [x], [f"{x}_relu"]))
        return f"{x}_relu"

    x, input_channels = relu(convolution("x", "stem", 64, 7, 3, 2)), 64
    nodes.append(node("MaxPool", [x], ["pool"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4))
    x = "pool"
    for stage, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            name, stride = f"s{stage}b{block}", 2 if stage and not block else 1
            inner = relu(convolution(x, f"{name}c0", channels, 3, input_channels, stride))
            inner = convolution(inner, f"{name}c1", channels, 3, channels)
            skip = x if stride == 1 else convolution(x, f"{name}skip", channels, 1, input_channels, stride)
            nodes.append(node("Add", [inner, skip], [name]))
            x, input_channels = relu(name), channels
    values["W"] = weights(1000, 512)
    nodes += [
        node("GlobalAveragePool", [x], ["mean"]),
        node("Flatten", ["mean"], ["flat"]),
        node("Gemm", ["flat", "W"], ["y"], transB=1),
    ]
    return nodes, values


if __name__ == "__main__":
    main()
