#!/usr/bin/env python3
"""Writes one table for several releases of Kubernetes: the lines of the tables recorded from each, in ascending order.

    tools/union.py 36=RECORDED 37=RECORDED >TABLE

A line that not all releases have starts with a mark: `+37 ` for a line since 1.37, `-37 ` for one until 1.36, `+36-37 ` for both. The table
without the lines of other releases, and without marks, is the recorded one. A recording may be compressed with gzip.
"""
import difflib
import gzip
import pathlib
import sys


def read(path: str) -> list:
    recorded = pathlib.Path(path).read_bytes()
    return (gzip.decompress(recorded) if recorded[:2] == b"\x1f\x8b" else recorded).decode().splitlines()


def added(union: list, release: int, lines: list) -> list:
    """The lines of a union, [text, first release, release from which the line is gone or None], with those of one release more."""
    texts = [text if gone is None else None for text, _, gone in union]
    found = []
    for what, low, high, start, end in difflib.SequenceMatcher(None, texts, lines, autojunk=False).get_opcodes():
        for text, first, gone in union[low:high]:
            found.append([text, first, gone if what == "equal" else gone or release])
        if what != "equal":
            found.extend([text, release, None] for text in lines[start:end])
    return found


def main() -> None:
    recordings = dict(argument.split("=", 1) for argument in sys.argv[1:])
    oldest = min(map(int, recordings))
    union = []
    for release in sorted(map(int, recordings)):
        union = added(union, release, read(recordings[str(release)]))
    for text, first, gone in union:
        if text[:1] in ("+", "-"):
            sys.exit(f"a line starts as a mark: {text}")
        mark = ("" if first == oldest else f"+{first}") + ("" if gone is None else f"-{gone}")
        print(f"{mark} {text}" if mark else text)


main()
