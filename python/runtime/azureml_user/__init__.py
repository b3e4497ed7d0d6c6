"""The package that ParallelRunStep provides to scripts."""
