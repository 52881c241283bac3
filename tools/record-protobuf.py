#!/usr/bin/env python3
"""Writes src/object/protobuf/messages.txt: the protobuf messages of Kubernetes' built-in kinds, from the Go modules' sources.

  tools/record-protobuf.py [GOMODCACHE]

A line `@ group/version package` names a package. A line without indentation starts a message, as `package.Message`; the lines
below are its fields: number, flags, JSON name, type. Flags: r repeated, m map (the type is the value's), i inlined in JSON,
z zero values are written (they are pointers in Go, or have no omitempty), - none. A type without a dot is a scalar, one that starts with
a dot is of the same package.
"""
import re
import subprocess
import sys
from pathlib import Path

VERSION = "v0.36.3"
cache = Path(sys.argv[1] if len(sys.argv) > 1 else subprocess.check_output(["go", "env", "GOMODCACHE"], text=True).strip())
out = Path(__file__).parent.parent / "src/object/protobuf/messages.txt"
roots = [cache / f"k8s.io/api@{VERSION}", cache / f"k8s.io/apimachinery@{VERSION}"]


def go_fields(folder):
    """(struct, number) -> (json name, inline, writes zeros), from the tags in the Go types."""
    found = {}
    for file in folder.glob("*.go"):
        if file.name.startswith(("generated", "zz_")) or file.name.endswith("_test.go"):
            continue
        struct = None
        for line in file.read_text().splitlines():
            if m := re.match(r"type (\w+) struct {", line):
                struct = m[1]
            elif line.startswith("}"):
                struct = None
            tags = re.match(r"\s+(?:\w+\s+)?(\S+)\s+`(.*)`", line)
            if not struct or not tags:
                continue
            json, proto = re.search(r'json:"([^"]*)"', tags[2]), re.search(r'protobuf:"\w+,(\d+)', tags[2])
            if json and proto:
                name, *options = json[1].split(",")
                pointer = tags[1].startswith("*")
                found[struct, int(proto[1])] = (name, "inline" in options, pointer or "omitempty" not in options)
    return found


lines = []
for root in roots:
    for file in sorted(root.rglob("generated.proto")):
        text, folder = file.read_text(), file.parent
        package = re.search(r"^package ([\w.]+);", text, re.M)[1].replace("k8s.io.api.", "").replace("k8s.io.apimachinery.pkg.", "")
        fields = go_fields(folder)
        group = next((m[1] for f in folder.glob("register.go") if (m := re.search(r'GroupName\s*=\s*"([^"]*)"', f.read_text()))), None)
        if group is not None:
            lines.append(f"@ {group}/{folder.name} {package}")
        message = None
        for line in text.splitlines():
            if m := re.match(r"message (\w+) {", line):
                message = m[1]
                lines.append(f"{package}.{message}")
            field = re.match(r"  (optional|repeated|required|map<(\w+), ?\.?([\w.]+)>) ?(?:\.?([\w.]+) )?(\w+) = (\d+)", line)
            if not message or not field:
                continue
            label, key, value, kind, name, number = field.groups()
            kind = (value or kind).replace("k8s.io.api.", "").replace("k8s.io.apimachinery.pkg.", "")
            assert key in (None, "string"), line
            scalar = kind in ("string", "bytes", "bool", "int32", "int64", "uint32", "uint64", "double", "float")
            if not scalar:
                kind = kind if "." in kind else "." + kind
                kind = kind.replace(package + ".", ".", 1) if kind.startswith(package + ".") and kind.count(".") == package.count(".") + 1 else kind
            json, inline, zero = fields.get((message, int(number)), (name, False, True))
            flags = ("r" if label == "repeated" else "") + ("m" if key else "") + ("i" if inline else "") + ("z" if zero else "")
            lines.append(f" {number} {flags or '-'} {json or name} {kind}")
out.write_text("\n".join(lines) + "\n")
