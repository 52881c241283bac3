"""The programs that the tests run, and the cases that they render."""
import json
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CHART = ROOT / "charts/kube-admission-proxy"
WORK = ROOT / "target/chart"
ASSETS = ROOT / "target/e2e-assets"
HELM = ASSETS / "helm"
OBJECTS = ASSETS / "objects"
EXPRESSIONS = ASSETS / "expressions"
UNITTEST = ASSETS / "helm-unittest"
LOAD = ASSETS / "load"
# Values with an image, which the chart lacks.
IMAGE = HERE / "image.yaml"
BINARY = Path(os.environ.get("KUBE_ADMISSION_PROXY", ROOT / "target/debug/kube-admission-proxy"))

RELEASE, NAMESPACE = "proxy", "gateway"


class Failed(Exception):
    """A test that failed, with the reason."""


def expect(condition, reason):
    if not condition:
        raise Failed(reason)


def run(*command, stdin=None, environment=None):
    """Returns the exit code, the standard output and the standard error."""
    done = subprocess.run([str(part) for part in command], input=stdin, text=True, capture_output=True,
                          env={**os.environ, **HOMES, **(environment or {})})
    return done.returncode, done.stdout, done.stderr


# Helm keeps no state outside the work folder.
HOMES = {f"HELM_{name}_HOME": str(WORK / f"helm/{name.lower()}") for name in ("CACHE", "CONFIG", "DATA")}


def succeed(*command, **options):
    """Returns the standard output."""
    code, output, errors = run(*command, **options)
    expect(code == 0, f"{' '.join(str(part) for part in command)}: exit code {code}\n{output}{errors}")
    return output


def template(values=(), settings=(), chart=CHART):
    """Renders the chart with these files of values, or an image, and these `key=value`s. Returns exit code, manifests and errors."""
    command = [HELM, "template", RELEASE, chart, "--namespace", NAMESPACE]
    for file in values or [IMAGE]:
        command += ["--values", file]
    for setting in settings:
        command += ["--set-json" if setting.endswith(("]", "}")) else "--set", setting]
    return run(*command)


def decode(manifests):
    """The objects of the manifests, decoded strictly into their Go types."""
    return json.loads(succeed(OBJECTS, stdin=manifests))


def of_kind(objects, kind):
    return [found for found in objects if found["kind"] == kind]


def cases():
    """The names of the rendered cases, and their files of values."""
    files = {"default": [IMAGE]}
    # Presets with a front end for everybody need the addresses of the API server.
    api_servers = [HERE / "api-servers.yaml"]
    for path in sorted((CHART / "presets").glob("*.yaml")):
        files[path.stem] = [IMAGE, path, *(api_servers if "anonymous: true" in path.read_text() else [])]
    files |= {path.stem.removesuffix("-values"): [IMAGE, path] for path in sorted((CHART / "ci").glob("*-values.yaml"))}
    return files


def proxy_container(pod):
    return next(found for found in pod["containers"] if found["name"] == "kube-admission-proxy")
