"""A Sandmill entry script: adds a model's predictions to a table of people."""

from sandmill import models

# The columns that the model takes, in the model's order.
FEATURES = ["height", "weight"]


# Called once per worker. The job file names the model's file.
def init():
    global model
    model = models.load("model")


# Called once per mini-batch. Calls the model once for all rows.
def run(people):
    features = [list(row) for row in people.select(*FEATURES).tuples()]
    rows = model.run(features)[model.outputs[0].name].tolist()
    # Take the first number of each row. If the output is the labels of a classifier, a row is a number.
    predicted = [row[0] if isinstance(row, list) else row for row in rows]
    return people.with_columns(predicted=predicted)
