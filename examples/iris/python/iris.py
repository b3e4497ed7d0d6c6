"""Classifies three species of iris: returns a table with `id`, `species` and `probability` for each flower."""

import argparse
import json

import numpy as np
import pandas as pd


def init():
    global model
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    arguments, _ = parser.parse_known_args()
    with open(arguments.model) as file:
        model = json.load(file)


def run(mini_batch):
    scores = mini_batch[model["features"]].to_numpy() @ np.array(model["coefficients"]).T + model["intercepts"]
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    best = probabilities.argmax(axis=1)
    return pd.DataFrame(
        {
            "id": mini_batch["id"],
            "species": np.array(model["classes"])[best],
            "probability": probabilities.max(axis=1).round(6),
        }
    )
