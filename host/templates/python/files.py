"""A Sandmill entry script: how many words each text file has."""

import os

from azureml_user.parallel_run import EntryScript


# Called once per worker. Arguments of the job file are in sys.argv.
def init():
    global logger
    logger = EntryScript().logger


# Called once per mini-batch, with the paths of its files. Each element becomes a row.
def run(mini_batch):
    logger.info("%d files", len(mini_batch))
    return [f"{os.path.basename(path)}: {words(path)}" for path in mini_batch]


def words(path):
    with open(path, encoding="utf-8") as file:
        return len(file.read().split())
