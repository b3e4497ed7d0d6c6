#!/usr/bin/env python3
"""Prints the slowest tests of the last `make test` and their seconds. Reads the JUnit report."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

REPORT = Path(__file__).resolve().parent.parent / "target/nextest/all/tests.xml"
MAX_SHOWN = 10


def main():
    if not REPORT.exists():
        # There is no report because the tests did not run. cargo has printed why.
        return
    cases = list(ElementTree.parse(REPORT).iter("testcase"))
    cases.sort(key=lambda case: float(case.get("time", 0)), reverse=True)
    print(f"The {min(MAX_SHOWN, len(cases))} slowest of {len(cases)} tests:")
    for case in cases[:MAX_SHOWN]:
        print(f"{float(case.get('time', 0)):8.1f} s  {case.get('classname')} {case.get('name')}")


if __name__ == "__main__":
    sys.exit(main())
