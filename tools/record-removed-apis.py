#!/usr/bin/env python3
"""Writes src/removed/*.yaml: CustomResourceDefinitions of the APIs that Kubernetes removed, from the Go types of their last releases.

Needs Go. controller-gen makes the schemas; descriptions are left out, and what the types do not say (scope, short names, columns, defaults)
is added here. A definition is in the kind's original group if a kube-apiserver serves it there, else in a group of the proxy.
"""
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src/removed"
CONTROLLER_GEN = "sigs.k8s.io/controller-tools/cmd/controller-gen@v0.19.0"
APPROVAL = "unapproved, an API that Kubernetes removed"

# kind, module, folder of its types, version of k8s.io/api that the types need
KINDS = [
    ("PodPreset", "k8s.io/api@v0.19.16", "settings/v1alpha1", "v0.19.16"),
    ("PodSecurityPolicy", "k8s.io/api@v0.24.17", "policy/v1beta1", "v0.24.17"),
    ("InitializerConfiguration", "k8s.io/kubernetes@v1.13.12", "staging/src/k8s.io/api/admissionregistration/v1alpha1", "v0.24.17"),
    ("ExternalAdmissionHookConfiguration", "k8s.io/kubernetes@v1.8.15", "staging/src/k8s.io/api/admissionregistration/v1alpha1",
     "v0.24.17"),
]
GROUPS = {
    "PodPreset": "settings.k8s.io", "PodSecurityPolicy": "policy.kube-admission-proxy.dev",
    # In front of a real API server the plugin Initializers does not work: this definition is for the embedded one.
    "InitializerConfiguration": "admissionregistration.k8s.io",
    "ExternalAdmissionHookConfiguration": "admissionregistration.kube-admission-proxy.dev",
}
SHORT_NAMES = {"PodSecurityPolicy": ["psp"]}
# Pod security policies are the only removed kind with columns of its own.
COLUMNS = {
    "PodSecurityPolicy": [
        ("Priv", "string", ".spec.privileged"), ("Caps", "string", ".spec.allowedCapabilities"),
        ("SELinux", "string", ".spec.seLinux.rule"), ("RunAsUser", "string", ".spec.runAsUser.rule"),
        ("FsGroup", "string", ".spec.fsGroup.rule"),
        ("SupGroup", "string", ".spec.supplementalGroups.rule"), ("ReadOnlyRootFs", "string", ".spec.readOnlyRootFilesystem"),
        ("Volumes", "string", ".spec.volumes"),
    ]
}


def module(name):
    answer = subprocess.run(["go", "mod", "download", "-json", name], capture_output=True, text=True, cwd=tempfile.gettempdir())
    return Path(json.loads(answer.stdout)["Dir"])


def schema(kind, types, version, controller_gen, folder):
    package = folder / kind / "types"
    package.mkdir(parents=True)
    for name in ["doc.go", "register.go", "types.go"]:
        shutil.copyfile(types / name, package / name)
    (package.parent / "go.mod").write_text(
        f"module types\ngo 1.24\nrequire (\n\tk8s.io/api {version}\n\tk8s.io/apimachinery {version}\n)\n"
    )
    subprocess.run(["go", "mod", "tidy"], cwd=package.parent, check=True, capture_output=True)
    command = [controller_gen, "crd:allowDangerousTypes=true", "paths=./types", "output:crd:dir=out"]
    subprocess.run(command, cwd=package.parent, check=True, capture_output=True)
    for file in (package.parent / "out").iterdir():
        definition = yaml.safe_load(file.read_text())
        if definition["spec"]["names"]["kind"] == kind:
            return bare(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    raise SystemExit(f"controller-gen made no definition of {kind}")


def bare(value):
    """The schema without descriptions."""
    if isinstance(value, dict):
        return {key: bare(each) for key, each in value.items() if not (key == "description" and isinstance(each, str))}
    return [bare(each) for each in value] if isinstance(value, list) else value


def defaults(kind, found):
    if kind == "PodSecurityPolicy":
        found["properties"]["spec"]["properties"]["allowPrivilegeEscalation"]["default"] = True
    if kind == "ExternalAdmissionHookConfiguration":
        found["properties"]["externalAdmissionHooks"]["items"]["properties"]["failurePolicy"]["default"] = "Ignore"
    return found


def rules(kind, found):
    """The rules without which an object that the API server stores could refuse every pod, or is one that the last releases refused. They count
    for writes that do not pass the proxy, which has all rules."""
    if kind == "ExternalAdmissionHookConfiguration":
        hook = found["properties"]["externalAdmissionHooks"]["items"]["properties"]
        # Go decodes a missing structure to an empty one.
        hook["clientConfig"].pop("required")
        hook["clientConfig"]["properties"]["service"].pop("required")
        found["properties"]["externalAdmissionHooks"]["items"]["required"] = ["name"]
        hook["failurePolicy"]["enum"] = ["Ignore"]
    if kind == "PodSecurityPolicy":
        spec = found["properties"]["spec"]["properties"]
        for field, values in [
            ("fsGroup", ["MayRunAs", "MustRunAs", "RunAsAny"]), ("runAsGroup", ["MayRunAs", "MustRunAs", "RunAsAny"]),
            ("runAsUser", ["MustRunAs", "MustRunAsNonRoot", "RunAsAny"]), ("seLinux", ["MustRunAs", "RunAsAny"]),
            ("supplementalGroups", ["MayRunAs", "MustRunAs", "RunAsAny"]),
        ]:
            spec[field]["properties"]["rule"]["enum"] = values
            spec[field]["required"] = ["rule"]
    if kind == "PodPreset":
        spec = found["properties"]["spec"]
        some = " || ".join(f"has(self.{field})" for field in ["env", "envFrom", "volumeMounts", "volumes"])
        spec["x-kubernetes-validations"] = [
            {"rule": some, "message": "env, envFrom, volumeMounts or volumes must be given"},
        ]
        spec = spec["properties"]
        spec["env"]["items"]["properties"]["name"]["pattern"] = "^[-._a-zA-Z][-._a-zA-Z0-9]*$"
        spec["envFrom"]["items"]["properties"]["prefix"]["pattern"] = "^([-._a-zA-Z][-._a-zA-Z0-9]*)?$"
        operator = spec["selector"]["properties"]["matchExpressions"]["items"]["properties"]["operator"]
        operator["enum"] = ["DoesNotExist", "Exists", "In", "NotIn"]
        mount = spec["volumeMounts"]["items"]["properties"]
        mount["mountPath"]["minLength"] = 1
        mount["mountPropagation"]["enum"] = ["Bidirectional", "HostToContainer", "None"]
        for name in [mount["name"], spec["volumes"]["items"]["properties"]["name"]]:
            name.update({"maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"})
    return found


def definition(kind, group, version, found):
    plural = kind.lower()[:-1] + "ies" if kind.endswith("y") else kind.lower() + "s"
    names = {"kind": kind, "listKind": kind + "List", "plural": plural, "singular": kind.lower()}
    if kind in SHORT_NAMES:
        names["shortNames"] = SHORT_NAMES[kind]
    one = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": found}}
    if kind in COLUMNS:
        one["additionalPrinterColumns"] = [{"name": name, "type": kind_of, "jsonPath": path} for name, kind_of, path in COLUMNS[kind]]
    metadata = {"name": f"{plural}.{group}"}
    if group.endswith(".k8s.io"):
        metadata["annotations"] = {"api-approved.kubernetes.io": APPROVAL}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata,
        "spec": {"group": group, "names": names, "scope": "Namespaced" if kind == "PodPreset" else "Cluster", "versions": [one]},
    }


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        subprocess.run(["go", "install", CONTROLLER_GEN], check=True, env=None, cwd=folder)
        gobin = subprocess.run(["go", "env", "GOPATH"], capture_output=True, text=True).stdout.strip()
        for kind, of, types, version in KINDS:
            found = schema(kind, module(of) / types, version, f"{gobin}/bin/controller-gen", folder)
            made = definition(kind, GROUPS[kind], Path(types).name, rules(kind, defaults(kind, found)))
            (TARGET / f"{made['spec']['names']['singular']}.yaml").write_text(yaml.safe_dump(made, sort_keys=False, width=120))


if __name__ == "__main__":
    main()
