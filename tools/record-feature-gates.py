#!/usr/bin/env python3
"""Writes src/config/feature_gates.txt: the feature gates of kube-apiserver, read from the Go modules that e2e/assets pins.

    cd e2e/assets && go mod download
    tools/record-feature-gates.py $(go env GOMODCACHE)/k8s.io 1.36.3 > src/config/feature_gates.txt
"""
import glob
import re
import sys

modules, version = sys.argv[1], sys.argv[2]
staging = f"@v0.{version.removeprefix('1.')}"
minor = int(version.split(".")[1])
files = [f"{modules}/kubernetes@v{version}/pkg/features/kube_features.go", f"{modules}/client-go{staging}/features/known_features.go"]
for package in ("apiserver", "apiextensions-apiserver", "kube-aggregator", "component-base", "controller-manager"):
    files += glob.glob(f"{modules}/{package}{staging}/**/*features*.go", recursive=True)
sources = [open(file).read() for file in files if not file.endswith("_test.go")]
CONSTANT = r'^\s*(\w+)\s+(?:\w+\.)?Feature\s*=\s*"([^"]+)"'
names = {constant: name for source in sources for constant, name in re.findall(CONSTANT, source, re.M)}
gates = {}
for source in sources:
    for constant, body in re.findall(r"^\t(?:\w+\.)?(\w+):\s*\{\n((?:\t\t(?:\{|//).*\n)+)\t\}", source, re.M):
        for line in body.splitlines():
            since = re.search(r'MustParse\("1\.(\d+)"\)', line)
            if since and int(since[1]) <= minor:
                default, stage = re.search(r"Default: (\w+)", line)[1], re.search(r"PreRelease: (?:\w+\.)?(\w+)", line)[1]
                locked = " locked" if "LockToDefault: true" in line else ""
                gates[names.get(constant, constant)] = f"{default} {stage}{locked}"
# These gates are registered in other forms.
gates |= {"ContextualLogging": "true Beta", "LoggingAlphaOptions": "false Alpha", "LoggingBetaOptions": "true Beta",
          "NativeHistograms": "false Alpha"}
for name, facts in sorted(gates.items()):
    print(name, facts)
