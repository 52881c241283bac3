"""The CustomResourceDefinitions of tools/record-schema-validation.py."""

import copy
import functools
import time

STRING, INTEGER, OBJECT = {"type": "string"}, {"type": "integer"}, {"type": "object"}
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, **PRESERVE}


def items(schema, **more):
    return {"type": "array", "items": schema, **more}


def keyed(schema, *keys, **more):
    return items(schema, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}, **more)


def of(**properties):
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


NAMED = {"type": "object", "required": ["name"], "properties": {"name": STRING, "n": INTEGER}}

# Values of one property of the spec.
PROPERTIES = [
    {}, {"type": "strin"}, {"type": "null"}, {"type": "array"}, {"type": "array", "items": {}}, items(STRING), {"type": "object", "properties": {"a": {}}}, {"description": "x"},
    {"type": "string", "pattern": "["}, {"type": "string", "pattern": "(?=a)"}, {"type": "string", "id": "x"}, {"type": "string", "$schema": "x"}, {"type": "string", "$ref": "#/x"},
    {"type": "object", "patternProperties": {"a": STRING}}, {"type": "object", "dependencies": {"a": ["b"]}}, {"type": "object", "dependencies": {"a": OBJECT}}, {"type": "object", "definitions": {"a": STRING}},
    {"type": "array", "items": STRING, "additionalItems": False}, {"type": "array", "items": STRING, "additionalItems": STRING}, {"type": "array", "items": [STRING, INTEGER]}, {"type": "array", "items": STRING, "uniqueItems": True},
    {"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING}, {"type": "object", "properties": {"a": STRING}, "additionalProperties": False}, {"type": "object", "properties": {"a": STRING}, "additionalProperties": True},
    {"type": "object", "additionalProperties": {}}, {"type": "object", "additionalProperties": {"type": "string", "default": "x"}}, {"x-kubernetes-preserve-unknown-fields": False}, PRESERVE,
    {"x-kubernetes-int-or-string": True}, {"x-kubernetes-int-or-string": True, "type": "string"}, {"x-kubernetes-int-or-string": True, **PRESERVE}, {"x-kubernetes-int-or-string": True, "x-kubernetes-embedded-resource": True},
    {"x-kubernetes-int-or-string": True, "anyOf": [INTEGER, STRING]}, {"x-kubernetes-int-or-string": True, "anyOf": [STRING, INTEGER]}, {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [INTEGER, STRING]}, {"maximum": 5}]},
    {"x-kubernetes-int-or-string": True, "allOf": [{"maximum": 5}, {"anyOf": [INTEGER, STRING]}]}, {"anyOf": [INTEGER, STRING]}, {"type": "string", "anyOf": [INTEGER, STRING]},
    {"type": "object", "x-kubernetes-embedded-resource": True}, EMBEDDED, {"x-kubernetes-embedded-resource": True, **PRESERVE}, {"type": "string", "x-kubernetes-embedded-resource": True}, {**EMBEDDED, "additionalProperties": STRING},
    {**EMBEDDED, "properties": {"kind": INTEGER, "apiVersion": INTEGER, "metadata": STRING}}, {**EMBEDDED, "properties": {"metadata": {"type": "object", "properties": {"labels": OBJECT}}}},
    {**EMBEDDED, "properties": {"metadata": {"type": "object", "properties": {"x": EMBEDDED}}}}, {**EMBEDDED, "properties": {"metadata": {"type": "object", "additionalProperties": {"type": "string", "default": "x"}}}},
    {"type": "object", "x-kubernetes-map-type": "atomic"}, {"type": "object", "x-kubernetes-map-type": "x"}, {"type": "string", "x-kubernetes-map-type": "granular"}, {"x-kubernetes-map-type": "granular", **PRESERVE},
    {"type": "string", "x-kubernetes-list-type": "set"}, {"x-kubernetes-list-type": "set", **PRESERVE}, items(STRING, **{"x-kubernetes-list-type": "x"}), items(STRING, **{"x-kubernetes-list-type": "set"}),
    items(OBJECT, **{"x-kubernetes-list-type": "set"}), items({"type": "object", "x-kubernetes-map-type": "atomic"}, **{"x-kubernetes-list-type": "set"}), items(items(STRING, **{"x-kubernetes-list-type": "set"}), **{"x-kubernetes-list-type": "set"}),
    items({"type": "string", "nullable": True}, **{"x-kubernetes-list-type": "set"}), items(STRING, **{"x-kubernetes-list-map-keys": ["a"]}), items(STRING, **{"x-kubernetes-list-type": "set", "x-kubernetes-list-map-keys": ["a"]}),
    items(OBJECT, **{"x-kubernetes-list-type": "map"}), {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}, keyed(STRING, "a"), keyed(NAMED, "name"), keyed(NAMED, "name", "name"), keyed(NAMED, "name", "x"),
    keyed(NAMED, "name", "n"), keyed({"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}, "name"), keyed({"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "nullable": True}}}, "name"),
    keyed({"type": "object", "required": ["name"], "properties": {"name": OBJECT}}, "name"), keyed({**NAMED, "nullable": True}, "name"), {"type": "array", "items": [NAMED], "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    {"type": "object", "properties": {"a": STRING}, "allOf": [{"properties": {"b": {"minLength": 1}}}]}, {"type": "object", "properties": {"a": STRING}, "allOf": [{"properties": {"a": {"minLength": 1}}}]},
    {"type": "object", "properties": {"a": STRING}, "anyOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"a": {"default": "x"}}}]}, {"type": "string", "not": {"title": "x", "description": "y", "nullable": True}},
    {"type": "object", "properties": {"a": STRING}, "oneOf": [{"additionalProperties": STRING}, {"additionalProperties": True}, {"additionalProperties": False}]}, items(STRING, allOf=[{"items": {"minLength": 2}}]), {"type": "array", "items": STRING, "not": {"items": {"items": {"minLength": 2}}}},
    {"type": "object", "not": {"properties": {"metadata": {"minProperties": 1}}}, "properties": {"metadata": OBJECT}}, {"type": "object", "anyOf": [PRESERVE, {"x-kubernetes-embedded-resource": True}, {"x-kubernetes-int-or-string": True}]},
    {"type": "array", "items": STRING, "anyOf": [{"x-kubernetes-list-type": "set"}, {"x-kubernetes-list-map-keys": ["a"]}, {"x-kubernetes-map-type": "atomic"}]}, {"type": "object", "allOf": [{"x-kubernetes-validations": [{"rule": "true"}]}]},
    {"type": "string", "allOf": [{"pattern": "["}]}, {"type": "string", "anyOf": [{"items": {"minLength": 1}}]}, {"type": "string", "default": "x"}, {"type": "string", "default": 5}, {"type": "integer", "default": 1.5}, {"type": "integer", "default": 1.0},
    {"type": "string", "maxLength": 2, "default": "long"}, {"type": "string", "enum": ["a"], "default": "b"}, {"type": "object", "properties": {"a": STRING}, "default": {"a": "x", "b": 1}}, {"type": "object", "default": {"b": 1}}, {"type": "object", "default": {}},
    {"type": "object", "required": ["a"], "properties": {"a": STRING}, "default": {}}, items({"type": "string", "default": 5}), items({"type": "integer", "maximum": 2}, default=[1, 3, 5]), {"type": "string", "nullable": True, "default": None}, {**EMBEDDED, "default": {}},
    {**EMBEDDED, "default": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "x": 1}}}, {**EMBEDDED, "default": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 5}}}, {**EMBEDDED, "default": {"apiVersion": 5, "kind": "P d"}},
    {**EMBEDDED, "properties": {"kind": {"type": "string", "default": "P d"}}}, {**EMBEDDED, "properties": {"kind": {"type": "string", "default": "Pod"}}}, {**EMBEDDED, "properties": {"apiVersion": {"type": "string", "default": "a/b/c"}}},
    {**EMBEDDED, "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object", "default": {"a b": "c"}}}}}}, {**EMBEDDED, "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}}},
    {**EMBEDDED, "properties": {"metadata": {"type": "object", "properties": {"finalizers": items(STRING, default=[5])}}}}, {"type": "string", "format": "date", "default": "x"}, {"type": "string", "format": "x", "default": "x"}, {"x-kubernetes-int-or-string": True, "default": True},
    {"x-kubernetes-int-or-string": True, "anyOf": [INTEGER, STRING], "default": True}, {"type": "string", "default": "x", "anyOf": [{"minLength": 2}, {"pattern": "^y"}]}, {"type": "string", "nullable": True}, {"type": "string", "externalDocs": {"url": "x"}, "example": {"a": 1}},
    {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}}, {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string", "default": 5}}}},
    {"type": "object", "properties": {"a": items({"type": "object", "properties": {"b": {"type": "strin", "uniqueItems": True}}})}},
] + [{"type": "string", "x-kubernetes-validations": [rule]} for rule in [
    {"rule": ""}, {"rule": " "}, {"rule": "true", "message": " "}, {"rule": "true", "message": "a\nb"}, {"rule": "true\n"}, {"rule": "true ||\ntrue"}, {"rule": "true ||\ntrue", "message": "x"}, {"rule": "true", "messageExpression": " "},
    {"rule": "true", "reason": "x"}, {"rule": "true", "reason": "FieldValueForbidden"}, {"rule": "true", "fieldPath": " "}, {"rule": "true", "fieldPath": ".a\n"}, {"rule": "true", "fieldPath": ".a"}, {"rule": "true"},
]] + [{"type": "object", "properties": {"a": STRING, "b c": STRING, "l": items(STRING), "m": {"type": "object", "additionalProperties": STRING}}, "x-kubernetes-validations": [{"rule": "true", "fieldPath": path}]} for path in [
    ".a", ".b", "['b c']", ".l[0]", ".m.x", ".m['x']", "a", ".", "..", ".a.b", "['a", "[a]", "['\\a']", "['\\x']", ".['a']", ".m['x'",
]]

# Whole schemas.
SCHEMAS = [
    {}, {"type": "string"}, {"type": "object"}, PRESERVE, {"type": "object", "nullable": True}, {"type": "object", "additionalProperties": STRING}, {"type": "object", "additionalProperties": True}, {"type": "object", "properties": {"metadata": OBJECT}},
    {"type": "object", "properties": {"metadata": STRING}}, {"type": "object", "properties": {"kind": INTEGER, "apiVersion": INTEGER}}, {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}, "generateName": STRING}}}},
    {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": STRING, "labels": OBJECT}}}}, {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": OBJECT}}}},
    {"type": "object", "properties": {"metadata": {"type": "object", "minProperties": 1}}}, {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}}}, {"type": "object", "properties": {"metadata": {"type": "object", "description": "x"}}},
    {"type": "object", "properties": {"kind": {"type": "string", "default": "x"}}}, {"type": "object", "default": {"spec": {}}, "properties": {"spec": OBJECT}}, {"type": "object", "default": {"kind": "A", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {}}, "properties": {"spec": OBJECT}},
    {"type": "object", "x-kubernetes-embedded-resource": True, **PRESERVE}, {"type": "object", "x-kubernetes-int-or-string": True}, {"type": "object", "properties": {"a": {"type": "string", "id": "x"}}}, {"type": "object", "required": ["spec"]},
    {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"x": EMBEDDED}}}}, {"type": "object", "anyOf": [{"required": ["a"]}], "minProperties": 1}, {"type": "object", "allOf": [{"required": ["a"]}]}, {"type": "array", "items": STRING},
]


def at(*path):
    def change(value):
        def apply(definition):
            here = definition
            for step in path[:-1]:
                here = here[step]
            if value is ...:
                here.pop(path[-1], None)
            else:
                here[path[-1]] = value
        return apply
    return change


SPEC = functools.partial(at, "spec")
VERSION = functools.partial(at, "spec", "versions", 0)
V2 = {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": of(b=STRING)}}
HOOK = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://a.b/c"}}}


def hook(url=None, service=None, versions=("v1",), **more):
    config = {**({"url": url} if url is not None else {}), **({"service": service} if service is not None else {}), **more}
    return {"strategy": "Webhook", "webhook": {"conversionReviewVersions": list(versions), "clientConfig": config}}


def column(**fields):
    return {"name": "A", "type": "string", "jsonPath": ".spec.a", **fields}


NAMES = ["x", "X", "x_y", "", "1a", "a" * 64, "a.b", "-a"]
CHANGES = [at("metadata", "name")(name) for name in ("a", "defs.lab.com", "A", "")] + [at("metadata", "labels")({"a b": "c"}), at("metadata", "annotations")({"a b": "c"})] + [
    SPEC("group")(group) for group in ("", "lab", "Lab.dev", "a_b.c", "x.k8s.io", "kubernetes.io", "a..b")] + [SPEC("scope")(scope) for scope in ("", "Cluster", "namespaced")] + [
    SPEC("names", field)(name) for field in ("plural", "singular", "kind", "listKind") for name in NAMES] + [
    SPEC("names", field)(names) for field in ("shortNames", "categories") for names in (["a"], ["A", "b"], [""], ["a", "a"])] + [SPEC("names", "listKind")("Defs")] + [
    SPEC("versions")(versions) for versions in ([], [{**V2, "storage": True}, V2], [V2], [{**V2, "name": "v1"}, V2], [{**V2, "storage": True}, {**V2, "name": "v3"}], [{**V2, "storage": True, "name": "1"}], [{**V2, "storage": True, "name": "V_x"}])] + [
    VERSION("schema")(schema) for schema in (..., {}, {"openAPIV3Schema": None})] + [VERSION("served")(False), VERSION("storage")(False), VERSION("deprecated")(True), VERSION("deprecationWarning")("x")] + [
    lambda d, text=text: d["spec"]["versions"][0].update(deprecated=True, deprecationWarning=text) for text in ("", "x", "é" * 200, "a\nb", "a\u200bb", "x" * 257)] + [
    VERSION("additionalPrinterColumns")(columns) for columns in ([column()], [column(name="")], [column(type="")], [column(type="x")], [column(format="x")], [column(format="date-time")], [column(jsonPath="")], [column(jsonPath="a")], [column(jsonPath=".")], [column(jsonPath="..")], [column(), column(type="array", format="int", jsonPath="x[0]")])] + [
    VERSION("subresources")(value) for value in ({}, {"status": {}}, {"scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"}}, {"scale": {"specReplicasPath": "", "statusReplicasPath": ""}}, {"scale": {"specReplicasPath": ".status.a", "statusReplicasPath": ".spec.a", "labelSelectorPath": ".x"}},
        {"scale": {"specReplicasPath": "a", "statusReplicasPath": "b", "labelSelectorPath": "c"}}, {"scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a", "labelSelectorPath": ""}}, {"scale": {"specReplicasPath": ".spec", "statusReplicasPath": ".status"}})] + [
    VERSION("selectableFields")([{"jsonPath": path} for path in paths]) for paths in ([".spec.a"], [""], ["spec.a"], [".spec.x"], [".spec"], [".metadata.name"], [".spec.a", ".spec.a"], [".spec['a']"], [".spec.a.b"], [".spec."], ["."], [".spec.l"], [".spec.i", ".spec.b", ".spec.n"],
        [f".spec.s{n}" for n in range(9)], [f".spec.s{n}" for n in range(8)])] + [
    SPEC("preserveUnknownFields")(value) for value in (True, False)] + [
    SPEC("conversion")(value) for value in (None, {}, {"strategy": ""}, {"strategy": "X"}, {"strategy": "None", "webhook": HOOK["webhook"]}, {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}, {"strategy": "Webhook"}, HOOK, {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}},
        hook(), hook("https://a", {"namespace": "a", "name": "b"}), hook("http://a/b"), hook("https://"), hook("https://u:p@a/b?c=d#e"), hook("::"), hook("a b"), hook("https://a/%zz"), hook("x"), hook(""), hook("https://a:b/"), hook(service={"namespace": "a", "name": "b"}), hook(service={"namespace": "", "name": ""}),
        hook(service={"namespace": "a", "name": "b", "port": 0}), hook(service={"namespace": "a", "name": "b", "port": 70000}), hook(service={"namespace": "a", "name": "b", "path": "a"}), hook(service={"namespace": "a", "name": "b", "path": "//"}), hook(service={"namespace": "a", "name": "b", "path": "/a//B/"}),
        hook(service={"namespace": "a", "name": "b", "path": "/"}), hook("https://a", versions=[]), hook("https://a", versions=["v2"]), hook("https://a", versions=["v1", "v1", "V_1"]), hook("https://a", versions=["v1beta1", "x"]), hook("https://a", caBundle="eA=="))] + [
    lambda d: d["metadata"].update(name="defs.x.k8s.io") or d["spec"].update(group="x.k8s.io")] + [
    lambda d, text=text: d["metadata"].update(name="defs.x.k8s.io", annotations={"api-approved.kubernetes.io": text}) or d["spec"].update(group="x.k8s.io") for text in ("", "unapproved, x", "https://github.com/x", "x", "/a/b", "http://")] + [
    lambda d: d["spec"]["versions"].append(V2), lambda d: d["spec"]["versions"].append({**d["spec"]["versions"][0], "name": "v2", "storage": False}), lambda d: d["spec"]["versions"].append({**V2, "schema": {"openAPIV3Schema": of(b={})}}),
    lambda d: d["spec"]["versions"].append({**V2, "subresources": {"status": {}}, "additionalPrinterColumns": [column(type="x")], "selectableFields": [{"jsonPath": ".x"}]}), SPEC("names")({}), at("spec")({}), SPEC("names", "kind")("Defs-X")]

BASE_SCHEMA = of(a=STRING, i=INTEGER, b={"type": "boolean"}, n={"type": "number"}, l=items(STRING), **{f"s{n}": STRING for n in range(9)})
UPDATES = [
    SPEC("group")("lab.com"), SPEC("scope")("Cluster"), SPEC("names", "kind")("Other"), SPEC("names", "plural")("others"), SPEC("names", "singular")("other"), SPEC("names", "listKind")("OtherList"), SPEC("names", "shortNames")(["x"]),
    VERSION("name")("v2"), lambda d: d["spec"]["versions"].append(V2), lambda d: d["spec"].update(versions=[{**V2, "storage": True}]), lambda d: d["spec"]["versions"][0].update(storage=False) or d["spec"]["versions"].append({**V2, "storage": True}),
    VERSION("schema", "openAPIV3Schema")(of(a={"type": "strin"})), VERSION("schema", "openAPIV3Schema")(of(a={})), VERSION("schema")(...), SPEC("preserveUnknownFields")(True), SPEC("conversion")(hook("https://a", caBundle="eA==")), SPEC("conversion")(hook("https://a", versions=["x"])),
    at("metadata", "labels")({"a b": "c"}), at("metadata", "uid")("x"), at("metadata", "finalizers")(["a b"]), VERSION("subresources")({"status": {}}), SPEC("names", "plural")(""), SPEC("names", "kind")(""),
    VERSION("selectableFields")([{"jsonPath": f".spec.s{n}"} for n in range(9)]), lambda d: None, VERSION("schema", "openAPIV3Schema")(of(a={"type": "string", "x-kubernetes-validations": [{"rule": ""}]})),
]
# Definitions that earlier releases stored: (name, change, updates).
OLD = [
    ("olda", VERSION("schema", "openAPIV3Schema")(of(a={"type": "strin"})), [VERSION("schema", "openAPIV3Schema")(of(a={"type": "strin"}, b={"type": "x"})), VERSION("schema", "openAPIV3Schema")(of(a={"type": "string"}))]),
    ("oldb", lambda d: d["spec"].update(preserveUnknownFields=True) or d["spec"]["versions"][0]["schema"].update(openAPIV3Schema={"properties": {"a": {}}}),
        [VERSION("schema", "openAPIV3Schema")({"properties": {"a": {}, "b": {}}}), SPEC("preserveUnknownFields")(False), VERSION("schema", "openAPIV3Schema")(of(a={"type": "string", "default": "x"})), SPEC("conversion")(HOOK), VERSION("schema", "openAPIV3Schema")({"properties": {"a": PRESERVE}})]),
    ("oldc", lambda d: d["spec"]["versions"][0].pop("schema"), [lambda d: None, VERSION("served")(False), SPEC("preserveUnknownFields")(True)]),
    ("oldd", lambda d: d["spec"].update(preserveUnknownFields=True) or d["spec"]["versions"][0].pop("schema"), [lambda d: None, SPEC("preserveUnknownFields")(False)]),
    ("olde", VERSION("schema", "openAPIV3Schema")(of(a={"type": "object", "properties": {"x": STRING}, "default": {"y": 1}})), [lambda d: None, VERSION("schema", "openAPIV3Schema")(of(a={"type": "object", "default": {"z": 1}}))]),
    ("oldf", VERSION("schema", "openAPIV3Schema")(of(a=items(OBJECT, **{"x-kubernetes-list-type": "set"}))), [lambda d: None, VERSION("schema", "openAPIV3Schema")(of(c=items(items(STRING, **{"x-kubernetes-list-type": "set"}), **{"x-kubernetes-list-type": "set"})))]),
    ("oldg", VERSION("schema", "openAPIV3Schema")(of(a=keyed(NAMED, "n"))), [lambda d: None, VERSION("schema", "openAPIV3Schema")(of(a=keyed({**NAMED, "nullable": True}, "n")))]),
    ("oldh", SPEC("conversion")(hook("https://a", versions=["v9"])), [lambda d: None, SPEC("conversion")(hook("https://a", versions=["v8"]))]),
    ("oldi", VERSION("selectableFields")([{"jsonPath": f".spec.s{n}"} for n in range(9)]), [lambda d: None, lambda d: d["spec"]["versions"][0]["selectableFields"].pop(), lambda d: d["spec"]["versions"][0]["selectableFields"].reverse()]),
    ("oldj", lambda d: d["spec"].update(group="x.k8s.io") or d["metadata"].update(name="oldj.x.k8s.io"), [lambda d: None, at("metadata", "annotations")({"api-approved.kubernetes.io": "x"}), at("metadata", "annotations")({"api-approved.kubernetes.io": "https://a/b"})]),
    ("oldk", lambda d: d["status"].update(storedVersions=["v1", "v0"]), [lambda d: None]),
    ("oldl", lambda d: d["spec"].update(conversion=hook("https://a", caBundle="eA==")) or d["status"].update(conditions=[{"type": "Established", "status": "True", "lastTransitionTime": None, "reason": "", "message": ""}]), [lambda d: None, SPEC("conversion")(hook("https://a", caBundle="eQ=="))]),
]


def record(server, write, path, result, crd, wait):
    schema = VERSION("schema", "openAPIV3Schema")
    for change in CHANGES + [schema(of(x=value)) for value in PROPERTIES] + [schema(value) for value in SCHEMAS]:
        create(server, write, path, result, crd, change)
    for value in SCHEMAS:
        version = {"schema": {"openAPIV3Schema": value}, "subresources": {"status": {}}}
        create(server, write, path, result, crd, lambda d, version=version: d["spec"]["versions"][0].update(version))
    code, answer = server.call("POST", path, crd("upds", BASE_SCHEMA))
    if code != 201:
        raise SystemExit(str(answer))
    wait(server, "/apis/lab.dev/v1/namespaces/default/upds")
    time.sleep(1)
    update(server, write, path, result, "upds.lab.dev", UPDATES)
    for plural, change, updates in OLD:
        definition = crd(plural, copy.deepcopy(BASE_SCHEMA))
        definition["metadata"].update(uid=f"0-{plural}", creationTimestamp="2020-01-01T00:00:00Z", generation=1)
        definition["spec"].setdefault("conversion", {"strategy": "None"})
        definition["spec"]["names"].update(singular=plural, listKind=plural.capitalize() + "List")
        definition["status"] = {"storedVersions": ["v1"], "conditions": None, "acceptedNames": {"plural": "", "kind": ""}}
        change(definition)
        name = definition["metadata"]["name"]
        server.put_in_storage(f"/registry/apiextensions.k8s.io/customresourcedefinitions/{name}", definition)
        time.sleep(1)
        update(server, write, path, result, name, updates)


def create(server, write, path, result, crd, change):
    definition = copy.deepcopy(crd("defs", BASE_SCHEMA))
    change(definition)
    code, answer = server.call("POST", path + "?dryRun=All&fieldValidation=Ignore", definition)
    write({"definition": definition, **result(code, answer)})


def update(server, write, path, result, name, changes):
    for change in changes:
        code, old = server.call("GET", f"{path}/{name}")
        if code != 200:
            raise SystemExit(str(old))
        old["metadata"].pop("managedFields", None)
        definition = copy.deepcopy(old)
        change(definition)
        code, answer = server.call("PUT", f"{path}/{name}?dryRun=All&fieldValidation=Ignore", definition)
        write({"definition": definition, "old": old, **result(code, answer)})
