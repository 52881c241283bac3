#!/usr/bin/env python3
"""Writes crates/kubernetes-object/src/schema/types.txt from the OpenAPI v3 documents of a kube-apiserver.

    kubectl get --raw /openapi/v3/api/v1 > FOLDER/api_v1.json       (and so on, one file a document)
    tools/record-schema.py FOLDER > types.txt

tools/record-server.py does this for each release, and joins the tables. The server serves what is off by default as well:
--runtime-config=api/all=true --feature-gates=AllAlpha=true,AllBeta=true. Which of these kinds a cluster serves, its discovery says.

One line a type, `= NAME KIND... [atomic]`, where a KIND is group/version/kind; then one line a field, sorted:

    FIELD SHAPE [required] [strategy=S] [key=K] [list=T] [keys=A,B] [map=T] [enum=JSON] [default=JSON to the end of the line]

A SHAPE is a scalar (string, boolean, int32, int64, double, bytes, time, microtime, quantity, int-or-string), `any` for
what has no schema, the name of a type, or one of these after `[]` (list) or `{}` (map).
"""

import glob
import json
import os
import sys

PREFIXES = (
    "io.k8s.api.",
    "io.k8s.apimachinery.pkg.apis.",
    "io.k8s.apimachinery.pkg.",
    "io.k8s.apiextensions-apiserver.pkg.apis.",
    "io.k8s.kube-aggregator.pkg.apis.",
)
SPECIAL = {
    "meta.v1.FieldsV1": "any",
    "meta.v1.Patch": "any",
    "meta.v1.Time": "time",
    "meta.v1.MicroTime": "microtime",
    "runtime.RawExtension": "any",
    "util.intstr.IntOrString": "int-or-string",
    "api.resource.Quantity": "quantity",
    "apiextensions.v1.JSON": "any",
    "apiextensions.v1.JSONSchemaPropsOrArray": "any",
    "apiextensions.v1.JSONSchemaPropsOrBool": "any",
    "apiextensions.v1.JSONSchemaPropsOrStringArray": "any",
}
SCALARS = {
    ("string", None): "string",
    ("string", "byte"): "bytes",
    ("boolean", None): "boolean",
    ("integer", "int32"): "int32",
    ("integer", "int64"): "int64",
    ("integer", None): "int64",
    ("number", "double"): "double",
    ("object", None): "any",
    (None, None): "any",
}


def short(name):
    name = name.rpartition("/")[2]
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix):]
    return name


def shape(schema):
    reference = schema.get("$ref")
    if not reference and len(schema.get("allOf", ())) == 1:
        reference = schema["allOf"][0].get("$ref")
    if reference:
        name = short(reference)
        return SPECIAL.get(name, name)
    if schema.get("type") == "array":
        return "[]" + shape(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        return "{}" + shape(schema["additionalProperties"])
    return SCALARS[(schema.get("type"), schema.get("format"))]


def words(schema, required):
    if required:
        yield "required"
    for word, key in (("strategy", "patch-strategy"), ("key", "patch-merge-key"), ("list", "list-type"), ("map", "map-type")):
        value = schema.get("x-kubernetes-" + key)
        if value:
            yield f"{word}={value}"
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys:
        yield "keys=" + ",".join(keys)
    if "enum" in schema:
        yield "enum=" + json.dumps(schema["enum"], separators=(",", ":"))
    if "default" in schema:
        yield "default=" + json.dumps(schema["default"], separators=(",", ":"), sort_keys=True)


def main(folder):
    types, kinds = {}, {}
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path) as file:
            schemas = json.load(file).get("components", {}).get("schemas", {})
        for name, schema in schemas.items():
            name = short(name)
            if name in SPECIAL:
                continue
            types[name] = schema
            for kind in schema.get("x-kubernetes-group-version-kind", ()):
                kinds.setdefault(name, set()).add("/".join((kind["group"], kind["version"], kind["kind"])))
    for name in sorted(types):
        schema = types[name]
        atomic = ["atomic"] if schema.get("x-kubernetes-map-type") == "atomic" else []
        print(" ".join(["=", name, *sorted(kinds.get(name, ())), *atomic]))
        required = schema.get("required", ())
        for field, value in sorted(schema.get("properties", {}).items()):
            print(" ".join([field, shape(value), *words(value, field in required)]))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
