"""Makes the data, models and expected results of `digit-identification` and `iris`.

    pip install scikit-learn pillow numpy skl2onnx onnxruntime
    python make_data.py

The data sets come with scikit-learn. The expected results are the predictions of scikit-learn's own models.
The repository contains the files that this script writes. The tests compare Sandmill's results with the expected
results.
"""

import json
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

EXAMPLES = Path(__file__).parent


def make_digits():
    """Makes 1,797 handwritten digits as 8 x 8 grey PNG files, and a perceptron with 64 inputs, 32 hidden neurons
    and 10 outputs."""
    folder = EXAMPLES / "digit-identification"
    images, weights, models = (folder / "data" / name for name in ["images", "weights", "models"])
    for subfolder in [images, weights, models]:
        subfolder.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    # The data set's 17 shades, 0 to 16, become 0 to 240. The conversion is exact in both directions.
    shades = digits.images.astype(np.uint8) * 15
    names = [f"img_{number:04}.png" for number in range(len(shades))]
    for name, shade in zip(names, shades):
        Image.fromarray(shade, mode="L").save(images / name, optimize=True)

    x = digits.data / 16.0
    model = MLPClassifier(hidden_layer_sizes=(32,), random_state=0, max_iter=400).fit(x[:1200], digits.target[:1200])
    layers = [
        # One row for each neuron, so that the weights of its inputs are adjacent.
        {"weights": coefs.T.tolist(), "biases": intercepts.tolist()}
        for coefs, intercepts in zip(model.coefs_, model.intercepts_)
    ]
    dump(weights / "mlp.json", {"layers": layers, "classes": model.classes_.tolist()})

    onnx = convert_sklearn(
        model,
        initial_types=[("pixels", FloatTensorType([None, x.shape[1]]))],
        # Return one tensor of probabilities instead of a list of dictionaries.
        options={"zipmap": False},
        target_opset={"": 18, "ai.onnx.ml": 3},
    )
    # The default name is a random number, so the file would be different each time.
    onnx.graph.name = "digits"
    (models / "digits.onnx").write_bytes(onnx.SerializeToString())
    session = onnxruntime.InferenceSession(models / "digits.onnx")
    labels, f32_probabilities = session.run(None, {"pixels": x.astype(np.float32)})
    # 32-bit floats must not change a prediction, neither in the labels nor in the probabilities.
    assert (labels == model.predict(x)).all() and (f32_probabilities.argmax(axis=1) == labels).all()

    probabilities = model.predict_proba(x)
    report("digit-identification", probabilities, model.predict(x), digits.target)
    lines = [f"{name}: {digit}" for name, digit in zip(names, model.predict(x))]
    write(folder / "expected/digits.txt", lines)


def make_iris():
    """Makes 150 flowers as a CSV file, and a logistic regression."""
    folder = EXAMPLES / "iris"
    iris = load_iris()
    fields = [name.removesuffix(" (cm)").replace(" ", "_") for name in iris.feature_names]
    rows = [
        ",".join([str(number), *(f"{value:.1f}" for value in flower)])
        for number, flower in enumerate(iris.data)
    ]
    write(folder / "data/iris.csv", [",".join(["id", *fields]), *rows])

    model = LogisticRegression(max_iter=1000).fit(iris.data, iris.target)
    species = [str(name) for name in iris.target_names]
    dump(
        folder / "data/model/logistic.json",
        {
            "features": fields,
            "coefficients": model.coef_.tolist(),
            "intercepts": model.intercept_.tolist(),
            "classes": species,
        },
    )
    probabilities = model.predict_proba(iris.data)
    predictions = model.predict(iris.data)
    report("iris", probabilities, predictions, iris.target)
    lines = [
        f"{number} {species[predicted]} {round(float(probability), 6)!r}"
        for number, (predicted, probability) in enumerate(zip(predictions, probabilities.max(axis=1)))
    ]
    write(folder / "expected/iris.txt", lines)


def dump(path, value):
    """Writes a value as JSON, with all digits of floats."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, separators=(",", ":")) + "\n")


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def report(name, probabilities, predictions, truth):
    """Prints how many predictions are right, and the smallest difference between the probabilities of the best
    and the second-best class. It shows whether rounding could change a prediction."""
    ordered = np.sort(probabilities, axis=1)
    smallest_difference = (ordered[:, -1] - ordered[:, -2]).min()
    print(f"{name}: {len(truth)} items, {(predictions == truth).sum()} right, smallest difference {smallest_difference:.2e}")


if __name__ == "__main__":
    make_digits()
    make_iris()
