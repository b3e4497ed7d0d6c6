#!/usr/bin/env python3
"""Finds the words that docs/style.md bans, in all text files of the repository. Prints FILE:LINE: the word and what to write instead.

It also checks names in the code, in which a `_` or a capital letter begins a new word, and phrases that a line break divides.
"""

import bisect
import re
import subprocess
import sys

# Pairs of a pattern and advice.
BANNED = [
    (r"whoever|whomever", "name the actor: the caller, the user, a process"),
    (r"somebody|anybody|nobody|someone|anyone|no one(?! of)", "name the actor: the user, another process, no process"),
    (r"(?-i:none) (?:if|where|without)", "`None` if ..., has no ..., without ..."),
    # In quotes, `taken_up` is a key of job.json in earlier versions.
    (r"taken up(?![\"`])|(?<![\"`])taken up|takes? (?:it |them )?up(?! to| space| room| memory| \d)|taking up(?! space| room| memory)", "resumed, resumes"),
    (r"(?:is|are|was|were|be|been|being|gets?|got)(?: (?:then|also|not|never|only))? told", "receives, is notified, learns; or name the one that reports"),
    (r"in the place of", "instead of, replaces"),
    (r"any more(?! (?:than|of|rows|files|items|memory|bytes|text|data)\b)", "no longer"),
    (r"ahead of", "before"),
    (r"what (?:isn't|aren't)|what (?:is|are) (?:not(?! (?:available|there|supported))|no)", "name the thing"),
    (r"who (?:is|are|does) (?:not|no)", "name the actor"),
    (r"(?<!there )(?<!there it )(?:is|are|was|were) no(?= [a-z`])(?! longer| more\b| less\b| different| other| better| worse| newer| older| larger| smaller| matter|t\b)",
     "is not a ..., has no ..."),
    (r"prs-semantics", "docs/parallel-run-step.md"),
]
# `behind` is allowed only for walls, and for other positions in space.
BEHIND = re.compile(r"\bbehind(?! (?:(?:both|the|a|an|its|their|this|that|two|one|each|which|proxies|walls?|locks?|your|our|Sandmill's) ?)+)", re.I)
# Files that must quote the words, and texts by other authors.
EXCEPT = ("docs/style.md", "scripts/words.py", "wit/deps/", "tests/formats/", "fuzz/corpus/", "LICENSE", "Cargo.lock", "package-lock.json", "examples/word-count/data/")
KINDS = (
    ".rs", ".md", ".py", ".pyi", ".js", ".mjs", ".ts", ".c", ".h", ".cpp", ".wit", ".sh", ".yaml", ".yml", ".toml", ".json", ".wat",
    ".txt", ".html", ".svg", ".service", "Makefile", "run",
)  # fmt: skip
# The mark with which a line of a comment or of a quotation begins.
MARKER = re.compile(r"^\s*(?:///|//!|//|#+|;;|\*|>)?\s*")


def main():
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True).stdout.splitlines()
    patterns = [(re.compile(rf"(?<![a-z])(?:{pattern})(?![a-z])", re.I), advice) for pattern, advice in BANNED]
    found = 0
    for path in files:
        if path.startswith(EXCEPT) or path.endswith(EXCEPT) or not path.endswith(KINDS):
            continue
        try:
            with open(path, encoding="utf-8") as file:
                lines = file.readlines()
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        starts, parts, length = [], [], 0
        for line in lines:
            # After a `\\`, a Rust string continues on the next line.
            spaced = MARKER.sub("", line).rstrip().removesuffix("\\").rstrip().replace("_", " ")
            spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", spaced) + " "
            starts.append(length)
            parts.append(spaced)
            length += len(spaced)
        text = "".join(parts)
        hits = [(match, advice) for pattern, advice in patterns for match in pattern.finditer(text)]
        hits += [(match, "after; `behind` is for walls") for match in BEHIND.finditer(text)]
        for match, advice in sorted(hits, key=lambda hit: hit[0].start()):
            found += 1
            print(f"{path}:{bisect.bisect(starts, match.start())}: {match.group()!r}: {advice}")
    if found:
        sys.exit(f"{found} banned words; docs/style.md says what to write instead")


if __name__ == "__main__":
    main()
