"""Counts the lines, words and bytes of text files: returns a row `NAME: LINES WORDS BYTES` for each."""

from pathlib import Path


def run(mini_batch):
    return [count(Path(path)) for path in mini_batch]


def count(path):
    data = path.read_bytes()
    text = data.decode()
    return f"{path.name}: {len(text.splitlines())} {len(text.split())} {len(data)}"
