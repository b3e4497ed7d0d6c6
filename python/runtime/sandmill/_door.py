"""The connection to the host. The runtime sets `door` before it loads the script."""

import logging


class Door:
    """The functions of the host that the script may call: the interfaces `host` and `models` of wit/entry.wit.
    Each runtime implements them."""

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
        """Writes a line to the entry script's log. `level`: a level of the module `logging`."""
        raise NotImplementedError

    def read(self, path):
        """The bytes of a whole file. Raises OSError."""
        raise NotImplementedError

    def model_names(self):
        raise NotImplementedError

    def load_model(self, name):
        """Returns the inputs, the outputs, and a function that runs the model: see `sandmill.models`."""
        raise NotImplementedError


door = Door()


def level_of(number):
    """Converts a level of the module `logging` to the index in the host's levels: error, warning, info, debug."""
    if number >= logging.ERROR:
        return 0
    if number >= logging.WARNING:
        return 1
    return 2 if number >= logging.INFO else 3


def read(path):
    """Reads the bytes of a whole file in one call of the host, which is faster than `open` for large files.

    Raises OSError, whose text is the reason, if the file cannot be read.
    """
    return door.read(path)
