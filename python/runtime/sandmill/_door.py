"""What the runtime asks of its host. The runtime puts its own door here before the script is loaded."""

import logging


class Door:
    """The host, as a runtime reaches it: the interface `host` of the contract."""

    def agent_name(self):
        raise NotImplementedError

    def node_id(self):
        raise NotImplementedError

    def log_dir(self):
        raise NotImplementedError

    def output_dir(self):
        raise NotImplementedError

    def source_dir(self):
        raise NotImplementedError

    def log(self, level, text):
        """Writes a line to the entry script's log. `level`: a number of the module `logging`."""
        raise NotImplementedError

    def read(self, path):
        """The bytes of a whole file. Raises OSError."""
        raise NotImplementedError

    def model_names(self):
        raise NotImplementedError

    def load_model(self, name):
        """The inputs, the outputs, and a function that computes: see `sandmill.models`."""
        raise NotImplementedError


door = Door()


def level_of(number):
    """The place of a level of the module `logging` among the host's: error, warning, info, debug."""
    if number >= logging.ERROR:
        return 0
    if number >= logging.WARNING:
        return 1
    return 2 if number >= logging.INFO else 3


def read(path):
    """The bytes of a whole file, in one call of the host: faster than `open` for large files.

    Raises OSError, with the reason in words, where the file cannot be read.
    """
    return door.read(path)
