"""The package that ParallelRunStep gives a script."""
