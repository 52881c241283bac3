#!/usr/bin/env python3
"""Writes src/config/feature_gates.txt: the feature gates of kube-apiserver in each emulated release, as main.go prints them with the
modules of these versions of k8s.io/kubernetes, in ascending order.

    tools/feature-gates/record.py 1.34.4 1.35.4 1.36.3 1.37.2 >src/config/feature_gates.txt

A line has the name of a gate and what changes with a release: `36:true/Beta` is the default and the stage since 1.36, `37:true/GA/locked`
a gate that can only be set to its default, `37:-` a removed gate, `37@37:true/Beta` a default that needs --min-compatibility-version=1.37,
and `36>A,B` the gates without which the gate cannot be on. A release has what its own kube-apiserver has. A gate that only a later one has
is there with what the later one has when it emulates the release.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOOL = pathlib.Path(__file__).parent / "main.go"


def gates_of(kubernetes: str) -> dict:
    """The gates by name, as the tool prints them with the modules of this version."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(TOOL, folder)
        run = {"cwd": folder, "check": True, "stdout": subprocess.PIPE, "text": True,
               "env": os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", "GOWORK": "off"}}
        module = pathlib.Path(folder) / "go.mod"
        module.write_text("module feature-gates\n\ngo 1.26.0\n")
        found = subprocess.run(["go", "mod", "download", "-json", f"k8s.io/kubernetes@v{kubernetes}"], **run)
        requirements = pathlib.Path(json.loads(found.stdout)["GoMod"]).read_text()
        staging = f"v0.{kubernetes.removeprefix('1.')}"
        replacements = [f"replace {name} => {name} {staging}\n"
                        for name in re.findall(r"(k8s\.io/[a-z-]+) => \./staging", requirements)]
        with module.open("a") as file:
            file.write(f"\nrequire k8s.io/kubernetes v{kubernetes}\n\n" + "".join(replacements))
        printed = subprocess.run(["go", "run", "-trimpath", "."], **run).stdout
    return {gate["name"]: gate for gate in map(json.loads, printed.splitlines())}


def stages_at(gate: dict, release: int) -> list:
    """What a gate has in a release, by the lowest --min-compatibility-version."""
    return [(stage["minCompatibility"], stage["facts"]) for stage in gate["stages"] if stage["release"] == release]


def words(name: str, by_release: dict) -> list:
    """The words of a gate's line."""
    found, before, needed_before = [], [], []
    for release, gates in by_release.items():
        own = gates.get(name)
        later = [gates[name] for other, gates in by_release.items() if other > release and name in gates]
        stages = stages_at(own or later[0], release) if own or later else []
        if stages != before:
            for compatible, facts in stages:
                found.append(f"{release}:{facts}" if compatible == stages[0][0] else f"{release}@{compatible}:{facts}")
            if not stages:
                found.append(f"{release}:-")
        needed = own["dependencies"] or [] if own else needed_before
        if needed != needed_before:
            found.append(f"{release}>{','.join(needed)}")
        before, needed_before = stages, needed
    return found


def main() -> None:
    by_release = {int(version.split(".")[1]): gates_of(version) for version in sys.argv[1:]}
    for name in sorted(set().union(*by_release.values())):
        print(name, *words(name, by_release))


main()
