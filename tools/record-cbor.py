#!/usr/bin/env python3
"""Writes src/request/body/cbor.jsonl: what a kube-apiserver says of bodies in CBOR.

    tools/record-cbor.py HOST:PORT TOKEN > src/request/body/cbor.jsonl

The server runs with --feature-gates=CBORServingAndStorage=true; the token is an administrator's. Every body is created with
dryRun=All. One JSON object a line: the kind, the body in hexadecimal, and either the code and message of the refusal, or what the
object says (without what the server adds) and the warning.
"""

import http.client
import json
import ssl
import struct
import sys
import time


class Raw(bytes):
    """Bytes of an item as they are."""


class Tag:
    """A tagged item."""

    def __init__(self, number, value):
        self.number, self.value = number, value


def head(major, number):
    for size, information, limit in ((1, 24, 1 << 8), (2, 25, 1 << 16), (4, 26, 1 << 32), (8, 27, 1 << 64)):
        if number < 24:
            return bytes([major << 5 | number])
        if number < limit:
            return bytes([major << 5 | information]) + number.to_bytes(size, "big")
    raise ValueError(number)


def encode(value, text=2):
    """Text is in byte strings (2), as Kubernetes writes it, or in text strings (3); a tuple is a map of pairs."""
    if isinstance(value, Raw):
        return bytes(value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if value is None or isinstance(value, bool):
        return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    if isinstance(value, str):
        return head(text, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(encode(item, text) for item in value)
    if isinstance(value, Tag):
        return head(6, value.number) + encode(value.value, text)
    pairs = value if isinstance(value, tuple) else tuple(value.items())
    return head(5, len(pairs)) + b"".join(encode(key, text) + encode(item, text) for key, item in pairs)


def marked(value):
    return b"\xd9\xd9\xf7" + encode(value)


def text(value):
    return Raw(encode(value, 3))


NAMED = {"name": "a"}
TEMPLATE = (("apiVersion", "v1"), ("kind", "ConfigMap"), ("metadata", NAMED))


def config_map(**fields):
    return {"metadata": NAMED, **fields}


def pairs(*more):
    return TEMPLATE + more


CONFIG_MAPS = [
    encode(dict(TEMPLATE, data={"x": "y"}), 3),
    config_map(data={"x": "y"}),
    pairs(("data", (("x", "1"), ("x", "2")))),
    pairs(("data", ((text("x"), "1"), ("x", "2")))),
    pairs(("data", {}), ("data", {})),
    pairs((text("data"), {}), ("data", {})),
    pairs(("foo", {}), ("foo", {})),
    pairs(("foo", (("x", "1"), ("x", "2")))),
    pairs(("foo", 1)),
    pairs(("metadata", {"name": "b"})),
    {"metadata": {**NAMED, "bar": 1}, "foo": 2},
    {"metadata": NAMED, "data": {"a": 5}, "foo": 2},
    b"", b"\xf6", b"\x80", b"\x61a", b"\x01", b"\xa1\x61a", b"\xbf\x61a", b"\xbf\x61a\xff", b"\x5f\x61a\xff", b"\x5f\x5f\xff\xff",
    b"\xd9\xd9\xf7", b"\xff", b"\x1c", b"\x1f", b"\xf8\x10", b"\xf7", b"\xf0", b"\xf9\x7e\x00", b"\xfa\x7f\x80\x00\x00",
    marked(config_map()) + b"\0",
    b"\xbb\x10" + bytes(7), b"\xba\x00\x1f\xff\xff", b"\x9b\x10" + bytes(7), b"\x9b\xf0" + bytes(7), b"\x5b\x10" + bytes(7), b"\x7b\xf0" + bytes(7),
    b"\x81" * 20000 + b"\x80",
    {"apiVersion": "v1", "kind": 5}, {"apiVersion": ["v1"], "kind": "ConfigMap"}, {"apiVersion": "v1", "kind": text("Secret"), "metadata": NAMED},
    {"apiVersion": "a/b/c", "metadata": NAMED}, {"apiVersion": "foo/", "metadata": NAMED},
    {"apiVersion": "nope/v1", "kind": "ConfigMap", "metadata": NAMED}, {"apiVersion": "v2", "kind": "ConfigMap", "metadata": NAMED},
    {"apiVersion": None, "kind": None, "metadata": NAMED},
    config_map(data={"a": 5}), config_map(data={"a": -5}), config_map(data={"a": 5.5}), config_map(data={"a": True}), config_map(data={"a": []}),
    config_map(data=[]), config_map(data=None), config_map(data="x"), config_map(immutable="x"), config_map(immutable=True), config_map(immutable=1),
    {"metadata": "x"}, {"metadata": []}, {"metadata": None}, {"metadata": {**NAMED, "labels": {"a": 1}}}, {"metadata": {**NAMED, "labels": {"a": "b"}}},
    config_map(data=(("a", "x"), ("b", None), ("c", "y"))), config_map(data=((None, "x"),)), config_map(data=(("a", "x"), (None, "y"))),
    config_map(data={"a": Raw(b"\xf7")}), config_map(data={"a": Raw(b"\xe0")}), config_map(data={"a": Raw(b"\xf8\x20")}),
    config_map(data={"a": Raw(b"\x61\xff")}), config_map(data={"a": Raw(b"\x41\xff")}), config_map(data=((Raw(b"\x61\xff"), "x"),)),
    config_map(data={"a": Raw(b"\x5f\x41x\x41y\xff")}), config_map(data={"a": Raw(b"\x7f\x61\xc3\x61\xa9\xff")}),
    config_map(data={"a": Tag(22, "hi")}), config_map(data={"a": Tag(21, b"hi\xff\xfe")}), config_map(data={"a": Tag(23, "hi")}), config_map(data={"a": Tag(99, "hi")}),
    config_map(data={"a": Tag(0, "x")}), config_map(data={"a": Tag(0, text("x"))}), config_map(data={"a": Tag(1, text("x"))}), config_map(data={"a": Tag(1, 5)}),
    config_map(data={"a": Tag(2, "x")}), config_map(data={"a": Tag(55799, "x")}), config_map(data=((5, "x"),)), config_map(data=((Raw(b"\x80"), "x"),)),
    {1: 2, "metadata": NAMED}, {-1: 2, "metadata": NAMED}, (((1 << 63) - 1, 2), ((1 << 63) - 1, 3), ("metadata", NAMED)), ((-(1 << 64), 2), ("metadata", NAMED)),
    ((True, 2), ("metadata", NAMED)), ((None, 2), ("metadata", NAMED)), ((Tag(99, "data"), 2), ("metadata", NAMED)), {"metadata": (("name", "a"), (True, "b"))},
    config_map(binaryData={"a": text("aGk=")}), config_map(binaryData={"a": "aGk="}), config_map(binaryData={"a": "a?"}), config_map(binaryData={"a": "a\n"}),
    config_map(binaryData={"a": Tag(22, "hi")}), config_map(binaryData={"a": Tag(21, b"\xff")}), config_map(binaryData={"a": [1, 2]}), config_map(binaryData={"a": [256]}),
    config_map(binaryData={"a": [-1]}), config_map(binaryData={"a": {}}),
    b"\xbf\x68metadata\xbf\x64name\x7f\x61a\x61b\xff\xff\xff", {"apiVersion": "v1", "Kind": "ConfigMap", "metadata": NAMED}, Tag(99, config_map()),
    config_map(data={"a": "x" * 40, "é": "ü"}),
]


def pod(container=None, metadata=None, **spec):
    containers = [{"name": "c", "image": "i", **(container or {})}]
    return {"metadata": {**NAMED, **(metadata or {})}, "spec": {"containers": containers, **spec}}


PODS = [
    pod(), pod(terminationGracePeriodSeconds="x"), pod(terminationGracePeriodSeconds=1.0), pod(terminationGracePeriodSeconds=1 << 63),
    pod(terminationGracePeriodSeconds=-(1 << 64)), pod(terminationGracePeriodSeconds=True), pod({"ports": [{"containerPort": 1 << 40}]}),
    pod({"ports": [{"containerPort": -(1 << 40)}]}), pod({"resources": {"requests": {"cpu": 1}}}), pod({"resources": {"requests": {"cpu": "x"}}}),
    pod({"resources": {"requests": {"cpu": "0.1"}}}), pod({"resources": {"requests": {5: "1"}}}), pod(metadata={"creationTimestamp": "x"}),
    pod(metadata={"creationTimestamp": 5}), pod(metadata={"creationTimestamp": Tag(1, 5)}), pod(metadata={"creationTimestamp": Tag(0, text("2020-01-01T00:00:00Z"))}),
    pod({"foo": 1}), pod(foo=1), pod({"livenessProbe": {"httpGet": {"port": True}}}), pod({"livenessProbe": {"httpGet": {"port": 1.5}}}),
    pod({"livenessProbe": {"httpGet": {"port": 80}}}), pod({"livenessProbe": {"httpGet": {"port": "x"}}}), pod({"livenessProbe": {"httpGet": {"port": 1 << 40}}}),
    {"metadata": NAMED, "spec": []}, {"metadata": NAMED, "spec": {"containers": {}}}, {"metadata": NAMED, "spec": {"containers": ["x"]}},
    pod(restartPolicy=5), pod(tolerations=[None]), pod(nodeSelector={"a": None}), pod(securityContext=Raw(b"\xf7")), pod(hostNetwork=Raw(b"\xf7")),
]

SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": {
    "replicas": {"type": "integer"}, "s": {"type": "string"}, "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}}}


def definition(name="foos", schema=SCHEMA):
    names = {"plural": name, "singular": name[:-1], "kind": name[:-1].capitalize()}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "lab.dev", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{name}.lab.dev"}, "spec": spec}


def of_schema(**fields):
    return definition("bars", {"type": "object", **fields})


DEFINITIONS = [
    of_schema(properties={"a": {"type": "object", "additionalProperties": {"foo": 1}}}), of_schema(properties={"a": {"type": "object", "additionalProperties": 5}}),
    of_schema(properties={"a": {"type": "object", "additionalProperties": {"type": 5}}}), of_schema(properties={"a": {"type": "object", "items": 5, "foo": 1}}),
    of_schema(properties={"a": {"type": "string", "default": Raw(b"\xf7")}}), of_schema(properties={"a": {"type": "integer", "default": 1 << 63}}),
    of_schema(properties={"a": {"type": "string", "default": (("a", 1), ("a", 2))}}), of_schema(properties={"a": {"type": "number", "maximum": "x"}}),
]


def foo(metadata=None, **spec):
    return {"apiVersion": "lab.dev/v1", "kind": "Foo", "metadata": {**NAMED, **(metadata or {})}, "spec": spec}


def foo_pairs(*more):
    return (("apiVersion", "lab.dev/v1"), ("kind", "Foo"), ("metadata", NAMED)) + more


FOOS = [
    foo(replicas=1, s="x"), foo(s=text("x")), foo(replicas=1 << 63), foo(replicas=-(1 << 63)), foo(replicas=-(1 << 63) - 1), foo(replicas=-(1 << 64)),
    foo(s=Tag(22, "hi")), foo(s=Tag(21, b"hi\xff\xfe")), foo(s=Tag(23, b"hi\xff\xfe")), foo(s=Tag(99, "a")), foo(s=b"\xff"), foo(s=Raw(b"\x61\xff")),
    foo(any=Tag(23, {"x": "a", "y": [Tag(22, ["a"])]})), foo_pairs(("spec", (("s", "a"), ("s", "b")))), foo_pairs(("spec", ((text("s"), "a"), ("s", "b")))),
    foo_pairs(("metadata", {"name": "b"})), foo_pairs((text("kind"), "Bar")), foo_pairs(("spec", {"any": [5, {"a": (("b", 1), ("b", 2))}]})),
    {"apiVersion": "lab.dev/v1", "metadata": NAMED}, {"kind": "Foo", "metadata": NAMED}, {}, b"\xf6", [], b"", b"\x1c", b"\xf7", 5, "x",
    {"apiVersion": "lab.dev/v1", "kind": 5}, {"apiVersion": 5, "kind": "Foo"}, {"apiVersion": "a/b/c", "kind": "Foo"}, {"apiVersion": "lab.dev/", "kind": "Foo"},
    {"apiVersion": "lab.dev/v2", "kind": "Foo", "metadata": NAMED}, {"apiVersion": "lab.dev/v1", "kind": "Bar", "metadata": NAMED},
    {"kind": "Foo", "x": [1.5, -3, 1e300, True, False, None, b"\xff\xfe", text('é"\\\t\x01\U0001f600'), "it's", Tag(1, 5), Raw(b"\x9f\x01\xff"), Raw(b"\xbf\x61a\x01\xff"),
                            Raw(b"\x5f\xff"), Raw(b"\x7f\xff"), Raw(b"\x7f\x61a\x61b\xff"), Raw(b"\xf9\x3c\x00"), 1e-7, Raw(b"\xf7"), Raw(b"\xf0"), b"", -(1 << 64), 1.5e22]},
    foo(metadata={"labels": {"a": 1}}), {**foo(), "metadata": "x"}, foo(any={"a": None, "b": [None, 1.5, True, -1, 1e300, 0.1]}), foo(any={"a": Raw(b"\xf7")}),
    foo(any={5: 1}), foo(any={-(1 << 64): 1}), foo(any=((None, 1), ("a", 2), (None, 3))), foo(any=((None, 1),)), foo(any=((Raw(b"\x80"), 1),)), foo(any=((Tag(22, "k"), 1),)),
    foo(any=((True, 1),)), foo(s=Tag(0, text("2020-01-01T00:00:00.1200+01:00"))), foo(s=Tag(0, text("2020-01-01T1:00:00+00:00"))), foo(s=Tag(0, text("x"))), foo(s=Tag(0, "x")),
    foo(s=Tag(1, 5)), foo(s=Tag(1, 5.25)), foo(s=Tag(1, -5)), foo(s=Tag(1, 1 << 62)), foo(s=Tag(1, "x")), foo(s=Tag(1, 1 << 63)), Tag(99, foo()), foo(any=Tag(55799, {"a": Tag(55799, 1)})),
]

KINDS = [
    ("/v1/ConfigMap", "/api/v1/namespaces/default/configmaps", CONFIG_MAPS),
    ("/v1/Pod", "/api/v1/namespaces/default/pods", PODS),
    ("apiextensions.k8s.io/v1/CustomResourceDefinition", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITIONS),
    ("lab.dev/v1/Foo", "/apis/lab.dev/v1/namespaces/default/foos", FOOS),
]


def main():
    address, token = sys.argv[1:]

    def send(method, path, body):
        connection = http.client.HTTPSConnection(address, context=ssl._create_unverified_context(), timeout=60)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/cbor", "Accept": "application/json"}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Warning"), json.loads(answer.read())

    send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", marked(definition()))
    while send("GET", "/apis/lab.dev/v1/namespaces/default/foos", b"")[0] != 200:
        time.sleep(0.2)
    time.sleep(2)
    for kind, path, bodies in KINDS:
        for body in bodies:
            body = body if isinstance(body, bytes) and not isinstance(body, Raw) else marked(body)
            code, warning, answer = send("POST", f"{path}?dryRun=All", body)
            line = {"kind": kind, "body": body.hex() if len(body) < 10000 else f"{body[:1].hex()}*{len(body)}", "code": code}
            if code == 201:
                line["object"] = {field: value for field, value in answer.items() if field in ("data", "binaryData", "immutable")}
                if kind.endswith("Foo"):
                    line["object"]["spec"] = answer.get("spec")
                if warning:
                    line["warning"] = warning.split('"', 1)[1][:-1].replace('\\"', '"')
            elif code == 400:
                line["message"] = answer["message"]
            print(json.dumps(line, ensure_ascii=False))


main()
