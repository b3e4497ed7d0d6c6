"""A Sandmill entry script: a table of people with what the model predicts of each."""

from sandmill import models

# The columns that the model takes, in its order.
FEATURES = ["height", "weight"]


# Called once per worker. The job file says which file the model is.
def init():
    global model
    model = models.load("model")


# Called once per mini-batch: one call of the model for all rows.
def run(people):
    features = [list(row) for row in people.select(*FEATURES).tuples()]
    rows = model.run(features)[model.outputs[0].name].tolist()
    # The first number of each row; a classifier's labels are numbers themselves.
    predicted = [row[0] if isinstance(row, list) else row for row in rows]
    return people.with_columns(predicted=predicted)
