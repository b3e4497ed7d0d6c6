"""A Sandmill entry script: runs a model on the numbers in each text file."""

import os

from sandmill import models


# Called once per worker. The job file names the model's file.
def init():
    global model
    model = models.load("model")


# Called once per mini-batch. Calls the model once for all files.
def run(mini_batch):
    outputs = model.run([numbers(path) for path in mini_batch])
    rows = outputs[model.outputs[0].name].tolist()
    return [f"{os.path.basename(path)}: {row}" for path, row in zip(mini_batch, rows)]


def numbers(path):
    with open(path, encoding="utf-8") as file:
        return [float(word) for word in file.read().split()]
