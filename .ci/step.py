#!/usr/bin/env python3
"""Runs one step of the gate.

    step.py NAME COMMAND...     run the command; print its wall time and CPU time, and keep them
    step.py --report            print the table of the steps, and the slowest tests

The CPU time has that of every descendant, those that outlive their parents too. The results are in target/gate.
"""
import ctypes
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

WORK = Path(__file__).resolve().parent.parent / "target/gate"
SLOWEST = 30
# The time in which orphans of a step end.
ORPHANS_SECONDS = 10
# As the test harness prints it with --report-time, and as the tests of the chart print it.
TIMED = re.compile(r"^(?:test )?(\S+)(?: \.\.\.|:) ok [<(]([0-9.]+) ?s[>)]", re.M)
PR_SET_CHILD_SUBREAPER = 36


def run(name, command):
    WORK.mkdir(parents=True, exist_ok=True)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphans become children of this process, which counts their time
    start = time.monotonic()
    with open(WORK / f"{name}.log", "w") as log:
        step = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                errors="replace")
        for line in step.stdout:
            log.write(line)
            print(line, end="", flush=True)
        code = step.wait()
    wall = time.monotonic() - start
    end = time.monotonic() + ORPHANS_SECONDS
    while time.monotonic() < end:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.1)
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = f"{name:12} {wall:7.0f} s {used.ru_utime + used.ru_stime:7.0f} s"
    with open(WORK / "steps", "a") as steps:
        steps.write(line + "\n")
    print(f"step {line}{'' if code == 0 else f', FAILED with {code}'}", flush=True)
    return code


def report():
    print("step            wall       CPU\n" + (WORK / "steps").read_text())
    found = [(float(seconds), name, log.stem) for log in WORK.glob("*.log") for name, seconds in TIMED.findall(log.read_text())]
    print(f"the {SLOWEST} slowest of {len(found)} timed tests")
    for seconds, name, step in sorted(found, reverse=True)[:SLOWEST]:
        print(f"{seconds:7.1f} s  {step}: {name}")


if sys.argv[1:] == ["--report"]:
    report()
else:
    sys.exit(run(sys.argv[1], sys.argv[2:]))
