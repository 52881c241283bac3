#!/usr/bin/env python3
"""Tests of the Helm chart charts/kube-admission-proxy.

    run.py [--record] [TEST ...]

Without names all tests run; the name renders stands for those that need no API server. --record writes the golden renders and the README's
table of values again, and runs nothing else. Helm, helm-unittest, the decoder of objects, the parser of expressions and the writer of
load.py are in target/e2e-assets (`make chart` builds them), the program in target/debug. Work files, and the logs of all processes, are in
target/chart.
"""
import argparse
import sys
import time

import features
import install
import load
import renders
from tools import WORK, Failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("tests", nargs="*", metavar="TEST")
    arguments = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    if arguments.record:
        renders.golden(record=True)
        renders.readme(record=True)
        return
    every = {test.__name__: test for test in [*renders.ALL, *install.ALL, *features.ALL, *load.ALL]}
    groups = {"renders": [test.__name__ for test in renders.ALL]}
    chosen = [name for argument in arguments.tests for name in groups.get(argument, [argument])]
    if unknown := [name for name in chosen if name not in every]:
        sys.exit(f"no test {', '.join(unknown)}; there are: {', '.join([*groups, *every])}")
    failures = 0
    for name, test in every.items():
        if chosen and name not in chosen:
            continue
        start = time.monotonic()
        try:
            test()
        except Failed as failed:
            failures += 1
            print(f"{name}: FAILED\n{failed}", file=sys.stderr)
        else:
            print(f"{name}: ok ({time.monotonic() - start:.1f} s)", flush=True)
    if failures:
        sys.exit(f"{failures} tests failed")


if __name__ == "__main__":
    main()
