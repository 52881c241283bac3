#!/usr/bin/env python3
"""Moves one of the two recorded releases of Kubernetes to another patch version: texts, constants and Go modules.

    tools/bump.py 1.37.3        (or make bump KUBERNETES=1.37.3)

The minor version says which: KUBERNETES_VERSION or NEWER_VERSION of the Makefile. Afterwards come `make record`, `make record-server`
and the tests. CONTRIBUTING.md describes the procedure, and that for a new minor version.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What was true of another version stays, and what `go` writes.
KEPT = ("CHANGELOG.md", ".sum", ".lock", ".gz", ".jsonl")


def run(*command, cwd=ROOT):
    print("+", *command, f"({cwd.relative_to(ROOT)})" if cwd != ROOT else "", flush=True)
    return subprocess.run(command, cwd=cwd, check=True, env=os.environ | {"GOFLAGS": "-mod=mod", "GOWORK": "off"})


def minor(version: str) -> str:
    return version.split(".")[1]


def rename(old: str, new: str) -> list:
    """Replaces a version, also as that of the staging modules; returns the changed files."""
    staging = [version.replace("1.", "v0.", 1) for version in (old, new)]
    before = {re.compile(rf"(?<![\d.]){re.escape(old)}(?!\d)"): new, re.compile(rf"{re.escape(staging[0])}(?!\d)"): staging[1]}
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    changed = []
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if name.endswith(KEPT) or not path.is_file():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        replaced = text
        for pattern, version in before.items():
            replaced = pattern.sub(version, replaced)
        if replaced != text:
            path.write_text(replaced)
            changed.append(name)
    return changed


def update(module: pathlib.Path, version: str) -> None:
    """Lets Go choose the modules that the new version needs."""
    file = [] if module.name == "go.mod" else [f"-modfile={module.name}"]
    if list(module.parent.rglob("*.go")):
        run("go", "mod", "tidy", *file, cwd=module.parent)
    else:
        # A module without code, which pins a program.
        run("go", "get", *file, f"k8s.io/kubernetes/cmd/kube-apiserver@v{version}", cwd=module.parent)


def main() -> None:
    if len(sys.argv) != 2 or not re.fullmatch(r"1\.\d+\.\d+", sys.argv[1]):
        sys.exit(__doc__)
    new = sys.argv[1]
    makefile = (ROOT / "Makefile").read_text()
    versions = {minor(found): found for found in re.findall(r"^(?:KUBERNETES|NEWER)_VERSION := (\S+)$", makefile, re.MULTILINE)}
    old = versions.get(minor(new))
    if old is None:
        sys.exit(f"{new} is of another minor version than {' and '.join(versions.values())}: see CONTRIBUTING.md")
    changed = rename(old, new)
    for name in changed:
        if name.endswith(".mod"):
            update(ROOT / name, new)
    print(f"{len(changed)} files speak of {new} now: {' '.join(changed)}")
    print("Next: make record record-server, then make test, which names what the version changed.")


main()
