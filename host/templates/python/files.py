"""A Sandmill entry script: counts the words of each text file."""

import os

from azureml_user.parallel_run import EntryScript


# Called once per worker. sys.argv has the arguments of the job file.
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
