"""`EntryScript`, as Azure's documentation describes it."""

import logging

from sandmill import _door


class _HostHandler(logging.Handler):
    def emit(self, record):
        _door.door.log(record.levelno, self.format(record))


def _logger():
    logger = logging.getLogger("azureml_user.parallel_run")
    # Log everything: the host drops lines by the job's logging level.
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(_HostHandler())
    return logger


class EntryScript:
    """The script's logger and folders, as ParallelRunStep provides them. Every call returns the same object."""

    _instance = None

    def __new__(cls):
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance.logger = _logger()
        return cls._instance

    @property
    def agent_name(self):
        """The name of this worker, such as `process000`."""
        return _door.door.agent_name()

    @property
    def node_id(self):
        """The node that this worker runs on."""
        return _door.door.node_id()

    @property
    def log_dir(self):
        """The folder for the script's own log files."""
        return _door.door.log_dir()

    @property
    def output_dir(self):
        """The folder for result files."""
        return _door.door.output_dir()

    @property
    def source_dir(self):
        """The folder with the script."""
        return _door.door.source_dir()

    working_dir = source_dir
