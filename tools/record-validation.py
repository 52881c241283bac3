#!/usr/bin/env python3
"""Writes what a kube-apiserver says of invalid objects of built-in kinds: recorded.jsonl.gz of validation.

    tools/record-validation.py FOLDER CRATE

FOLDER has the programs etcd and kube-apiserver; CRATE is crates/kubernetes-object/src. The script starts both on free ports of 127.0.0.1.
PyYAML reads the valid objects: those of e2e/kinds, and tools/validation-objects.yaml. The script changes one value of an object at a time,
and sends the result as a dry run. The changes follow from the types of the values and from the OpenAPI document; a seed chooses among them.

One JSON object a line. `base` lines have a valid object: its number, its resource, and the object as it is sent (`object`) or stored
(`stored`, with the status of status writes). `case` lines have the number of the object, the request (create, update, status), the change
[operation, JSON pointer, value], the code, and the causes [field, reason, message].
"""

import copy
import gzip
import http.client
import importlib.util
import json
import os
import random
import ssl
import sys
import tempfile

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = [os.path.join(HERE, "../e2e/kinds", name) for name in ("core.yaml", "workloads.yaml", "others.yaml", "extending.yaml")]
OWN = os.path.join(HERE, "validation-objects.yaml")
# Kinds with validation of their own elsewhere, and kinds whose objects are all in the own file.
LEFT_OUT = {"CustomResourceDefinition", "APIService"}
ONLY_OWN = {"ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice"}
# Texts in other languages.
TEXTS = {"expression", "valueExpression", "messageExpression"}
# Metadata has the same rules in all kinds, except for names; the marked objects stand for all.
METADATA = {"name", "generateName"}
CHANGES = {"create": 60, "update": 30, "status": 12}
MANY = {"Pod": 5, "Service": 3, "Deployment": 2, "Job": 2, "StatefulSet": 2, "PersistentVolume": 2, "HorizontalPodAutoscaler": 2}
# The plugins that kube-apiserver runs by default.
PLUGINS = ("NamespaceLifecycle,LimitRanger,ServiceAccount,TaintNodesByCondition,PodSecurity,Priority,DefaultTolerationSeconds,"
           "DefaultStorageClass,StorageObjectInUseProtection,PersistentVolumeClaimResize,RuntimeClass,CertificateApproval,CertificateSigning,ClusterTrustBundleAttest,"
           "CertificateSubjectRestriction,DefaultIngressClass,PodTopologyLabels,NodeDeclaredFeatureValidator,MutatingAdmissionPolicy,"
           "MutatingAdmissionWebhook,ValidatingAdmissionPolicy,ValidatingAdmissionWebhook,ResourceQuota")
LONG = ["a" * 64, "a" * 254, "a" * 300]


def load_recorder():
    spec = importlib.util.spec_from_file_location("recorder", os.path.join(HERE, "record-schema-validation.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


recorder = load_recorder()


class Server(recorder.Server):
    """The server of the other recorder, with one connection."""
    connection = None

    def call(self, method, path, body=None):
        if self.connection is None:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=60)
        headers = {"Authorization": f"Bearer {recorder.TOKEN}", "Content-Type": "application/json", "Accept": "application/json"}
        try:
            self.connection.request(method, path, json.dumps(body, separators=(",", ":")) if body is not None else None, headers)
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self.connection = None
            raise
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text.decode(errors="replace")


# --- the schemas of the OpenAPI document

class Schemas:
    def __init__(self, server):
        self.all, self.kinds = {}, {}
        for path in server.call("GET", "/openapi/v3")[1]["paths"]:
            code, document = server.call("GET", f"/openapi/v3/{path}")
            if code == 200:
                self.all.update(document.get("components", {}).get("schemas", {}))
        for schema in self.all.values():
            for kind in schema.get("x-kubernetes-group-version-kind", []):
                self.kinds[(kind["group"], kind["version"], kind["kind"])] = schema

    def resolve(self, schema):
        schema = schema or {}
        while True:
            if len(schema.get("allOf", [])) == 1:
                schema = schema["allOf"][0]
            elif "$ref" in schema:
                schema = {**self.all[schema["$ref"].rsplit("/", 1)[1]], "name": schema["$ref"].rsplit(".", 1)[1]}
            else:
                return schema

    def sample(self, schema, depth=0):
        schema = self.resolve(schema)
        kind, name = schema.get("type"), schema.get("name", "")
        if name == "Quantity" or "Quantity" in name:
            return "1"
        if name == "IntOrString":
            return "5%"
        if name in ("Time", "MicroTime") or schema.get("format") == "date-time":
            return "2026-01-01T00:00:00Z" if name != "MicroTime" else "2026-01-01T00:00:00.000000Z"
        if kind == "string":
            return "YQ==" if schema.get("format") == "byte" else "added"
        if kind == "integer":
            return 7
        if kind == "boolean":
            return True
        if kind == "array":
            return [self.sample(schema.get("items"), depth + 1)]
        if "properties" in schema and depth < 4:
            return {name: self.sample(each, depth + 1) for name, each in schema["properties"].items() if name in schema.get("required", [])}
        if "additionalProperties" in schema:
            return {"added": self.sample(schema["additionalProperties"], depth + 1)}
        return {}

    def child(self, schema, step):
        schema = self.resolve(schema)
        if isinstance(step, int):
            return schema.get("items")
        return schema.get("properties", {}).get(step) or schema.get("additionalProperties") if schema else None


# --- changes

def walk(value, path=()):
    yield path, value
    if isinstance(value, dict):
        for name, each in value.items():
            yield from walk(each, path + (name,))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from walk(each, path + (index,))


def is_left_out(path, marked):
    if path in ((), ("apiVersion",), ("kind",)) or path[-1] in TEXTS or "managedFields" in path:
        return True
    if path[0] == "metadata" and not marked and len(path) > 1:
        return path[1] not in METADATA
    return False


def pointer(path):
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def of_create(path, value, choose):
    """The other values that a new object has in this place."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [-1, 0, value + 1, 100000, 2 ** 31 - 1]
    if isinstance(value, str):
        found = ["", "Bogus!", choose.choice(LONG), "a..b", "/x/../y", "a.b", "-1", "UPPER", "1"]
        if value.endswith("%"):
            found += ["150%", "-5%", "x%"]
        if value[:1].isdigit():
            found += ["0", "1500m", "999999Gi", "1.2.3.4", "::1", "01.2.3.4", "300.1.1.1"]
        return found
    if isinstance(value, list):
        return [[]] + ([value + [copy.deepcopy(value[0])]] if value else [])
    return [{}] if isinstance(value, dict) else []


def of_update(path, value, choose):
    """The other values that an updated object has in this place."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, -1]
    if isinstance(value, str):
        return [value + "-x", "other", ""]
    if isinstance(value, list):
        return [value[1:], value + [copy.deepcopy(value[0])]] if value else []
    return []


def changes(schemas, kind, value, marked, values, choose, below=()):
    found = []
    for path, each in walk(value):
        if below and path[:len(below)] != below:
            continue
        if path and not is_left_out(path, marked):
            found += [["replace", pointer(path), other] for other in values(path, each, choose) if other != each]
            found.append(["remove", pointer(path)])
        if not isinstance(each, dict) or (path[:1] == ("metadata",) and not marked) or len(below) > len(path):
            continue
        schema = schemas.kinds.get(kind)
        for step in path:
            schema = schemas.child(schema, step)
        schema = schemas.resolve(schema)
        for name, of in schema.get("properties", {}).items():
            if name not in each and not is_left_out(path + (name,), marked) and not (not path and name in ("metadata", "status")):
                found.append(["add", pointer(path + (name,)), schemas.sample(of)])
        if "additionalProperties" in schema and path:
            sample = schemas.sample(schema["additionalProperties"])
            found += [["add", pointer(path + (name,)), sample] for name in ("Bad key!", "a" * 300, "..", "ok")]
    unique = {json.dumps(each): each for each in found}
    return list(unique.values())


def apply(value, change):
    value = copy.deepcopy(value)
    operation, path = change[0], [step.replace("~1", "/").replace("~0", "~") for step in change[1].split("/")[1:]]
    target = value
    for step in path[:-1]:
        target = target[int(step)] if isinstance(target, list) else target[step]
    last = int(path[-1]) if isinstance(target, list) else path[-1]
    if operation == "remove":
        del target[last]
    else:
        target[last] = copy.deepcopy(change[2])
    return value


def merge(value, patch):
    for name, each in patch.items():
        value[name] = merge(value.get(name) or {}, each) if isinstance(each, dict) else each
    return value


# --- the record

def objects():
    for file in FILES + [OWN]:
        for entry in yaml.safe_load(open(file)):
            if entry["kind"] in LEFT_OUT or (file != OWN and entry["kind"] in ONLY_OWN):
                continue
            version = entry["at"].split("/")[2:4] if entry["at"].startswith("/apis/") else ["v1"]
            for which in ("minimal", "rich"):
                if which not in entry:
                    continue
                value = {"apiVersion": "/".join(version), "kind": entry["kind"], **copy.deepcopy(entry[which])}
                metadata = value.setdefault("metadata", {})
                metadata.setdefault("name", which)
                if "/namespaces/kinds/" in entry["at"]:
                    metadata["namespace"] = "kinds"
                yield entry, which, json.loads(json.dumps(value, default=str))


def kind_of(value):
    group, _, version = value["apiVersion"].rpartition("/")
    return group, version, value["kind"]


def record(server, write):
    schemas = Schemas(server)
    code, answer = server.call("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kinds"}})
    if code != 201:
        sys.exit(str(answer))
    for number, (entry, which, value) in enumerate(objects()):
        print(number, value["kind"], which, file=sys.stderr, flush=True)
        choose = random.Random(f"{number} {value['kind']} {which}")
        at, kind, marked = entry["at"], kind_of(value), bool(entry.get("metadata"))
        factor = MANY.get(value["kind"], 1) * (1 if which == "rich" else 0.4)
        write({"base": number, "at": at, "object": value})

        def send(request, method, path, base, found, number=number, choose=choose, factor=factor):
            choose.shuffle(found)
            most, kept = CHANGES[request] * factor, 0
            for change in found:
                if kept >= most:
                    break
                code, answer = server.call(method, f"{path}?dryRun=All&fieldValidation=Ignore", apply(base, change))
                # A change that is no error is worth less.
                if code == 422 or (code in (200, 201) and choose.random() < 0.2):
                    write({"case": number, "on": request, "change": change, **recorder.result(code, answer)})
                    kept += 1

        send("create", "POST", at, value, changes(schemas, kind, value, marked, of_create, choose))
        code, stored = server.call("POST", at, value)
        if code not in (200, 201):
            print(value["kind"], value["metadata"]["name"], answer_text(stored), file=sys.stderr)
            continue
        name = value["metadata"]["name"]
        stored["metadata"].pop("managedFields", None)
        if which == "rich" and entry.get("status"):
            merge(stored.setdefault("status", {}), json.loads(json.dumps(entry["status"], default=str)))
            code, answer = server.call("PUT", f"{at}/{name}/status", stored)
            if code == 200:
                stored = answer
                stored["metadata"].pop("managedFields", None)
        code, current = server.call("GET", f"{at}/{name}")
        stored["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
        write({"base": number, "stored": stored})
        send("update", "PUT", f"{at}/{name}", stored, changes(schemas, kind, stored, marked, of_update, choose))
        if which == "rich" and entry.get("status"):
            send("status", "PUT", f"{at}/{name}/status", stored, changes(schemas, kind, stored, False, of_create, choose, ("status",)))


def answer_text(answer):
    return answer.get("message", "") if isinstance(answer, dict) else answer


def main(programs, crate):
    with tempfile.TemporaryDirectory() as folder:
        server = Server(programs, folder, [f"--disable-admission-plugins={PLUGINS}"])
        try:
            lines = []
            record(server, lambda line: lines.append(json.dumps(line, separators=(",", ":"), ensure_ascii=False)))
        finally:
            server.stop()
    with open(os.path.join(crate, "validation/recorded.jsonl.gz"), "wb") as file:
        file.write(gzip.compress("".join(f"{line}\n" for line in lines).encode(), 9, mtime=0))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
