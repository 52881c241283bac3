#!/usr/bin/env python3
"""Records what a kube-apiserver says of itself, for the embedded API server to say the same.

    tools/record-api.py https://127.0.0.1:6443 ca.crt admin.crt admin.key FOLDER

Writes into a folder what tools/record-server.py makes src/embedded/data of: discovery, the columns of every resource's table, the bootstrap
policy of RBAC, and OpenAPI v2 and v3 with the descriptions of types and fields, which `kubectl explain` prints, and without those of
operations. The same server version gives the same bytes. The server should run with default flags and no custom resources.
"""

import collections
import gzip
import json
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
OPENAPI_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Server:
    def __init__(self, url, ca, certificate, key):
        self.url = url.rstrip("/")
        self.context = ssl.create_default_context(cafile=ca)
        self.context.load_cert_chain(certificate, key)
        no_proxy = urllib.request.ProxyHandler({})
        self.opener = urllib.request.build_opener(no_proxy, urllib.request.HTTPSHandler(context=self.context))

    def json(self, path, accept="application/json"):
        request = urllib.request.Request(self.url + path, headers={"Accept": accept})
        with self.opener.open(request, timeout=60) as response:
            return json.load(response)


def discovery(server):
    """The groups in the server's order, each version with its APIResourceList's resources."""
    groups = [{"name": "", "versions": [version(server, "/api/v1", "v1")]}]
    for group in server.json("/apis")["groups"]:
        versions = [version(server, f"/apis/{v['groupVersion']}", v["version"]) for v in group["versions"]]
        groups.append({"name": group["name"], "versions": versions})
    return groups


def version(server, path, name):
    return {"version": name, "resources": server.json(path)["resources"]}


def check_aggregated(server, groups):
    """The embedded server makes the aggregated documents from the legacy ones: both must have the same order."""
    items = server.json("/api", AGGREGATED)["items"] + server.json("/apis", AGGREGATED)["items"]
    aggregated = [
        (item["metadata"].get("name", ""), v["version"], r["resource"], [s["subresource"] for s in r.get("subresources", [])])
        for item in items for v in item["versions"] for r in v["resources"]
    ]
    legacy = []
    for group in groups:
        for v in group["versions"]:
            names = [r["name"] for r in v["resources"]]
            for name in names:
                if "/" not in name:
                    below = [n.split("/", 1)[1] for n in names if n.startswith(name + "/")]
                    legacy.append((group["name"], v["version"], name, below))
    if aggregated != legacy:
        sys.exit("aggregated and legacy discovery differ in order: record both")


def tables(server, groups):
    """The columns of every listable resource: [name, type, format, priority, description]."""
    columns = {}
    for group in groups:
        for v in group["versions"]:
            prefix = f"/apis/{group['name']}/{v['version']}" if group["name"] else f"/api/{v['version']}"
            for resource in v["resources"]:
                if "list" in resource["verbs"]:
                    table = server.json(f"{prefix}/{resource['name']}?limit=1", TABLE)
                    columns[f"{prefix}/{resource['name']}"] = [
                        [c["name"], c["type"], c["format"], c["priority"], c["description"]] for c in table["columnDefinitions"]
                    ]
    return columns


def tables_text(columns):
    """One line a resource. A description that most columns of a name have stands once, by the name."""
    of_names = collections.defaultdict(collections.Counter)
    for path in sorted(columns):
        for name, *_, description in columns[path]:
            of_names[name][description] += 1
    common = {name: found.most_common(1)[0][0] for name, found in of_names.items() if found.total() > 1}

    def without_common(column):
        return column[:-1] if common.get(column[0]) == column[-1] else column

    descriptions = [f"  {json.dumps(name)}: {json.dumps(common[name])}" for name in sorted(common)]
    lines = [f"  {json.dumps(path)}: {json.dumps([without_common(c) for c in columns[path]])}" for path in sorted(columns)]
    return '{"descriptions": {\n' + ",\n".join(descriptions) + '\n},\n"columns": {\n' + ",\n".join(lines) + "\n}}\n"


def without_prose(value, in_responses=False):
    """Drops descriptions and examples, but for the one-word descriptions that OpenAPI requires of responses."""
    if isinstance(value, list):
        return [without_prose(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, item in value.items():
        prose = key in ("description", "example") and isinstance(item, str)
        if not prose or (key == "description" and in_responses):
            of_a_response = isinstance(item, dict) and in_responses == "codes"
            kept[key] = without_prose(item, "codes" if key == "responses" else "response" if of_a_response else False)
    return kept


def without_prose_of_operations(document):
    """The definitions stay as they are: each is a schema."""
    for key in document.keys() - {"components", "definitions"}:
        document[key] = without_prose({key: document[key]})[key]
    return document


def openapi_v3(server):
    """Every document's paths, one pool of the schemas they share, and what a document has differently."""
    documents, schemas, rest = {}, {}, None
    for path in server.json("/openapi/v3")["paths"]:
        document = without_prose_of_operations(server.json(f"/openapi/v3/{path}"))
        components = document["components"]
        shared, different = [], {}
        for name, schema in sorted(components.get("schemas", {}).items()):
            if schemas.setdefault(name, schema) == schema:
                shared.append(name)
            else:
                different[name] = schema
        own = {key: document[key] for key in ("openapi", "info")} | {"securitySchemes": components["securitySchemes"]}
        if rest not in (None, own):
            sys.exit(f"{path} differs from the other documents in what they share")
        rest = own
        documents[path] = {"paths": document["paths"], "shared": shared, "own": different}
    return rest | {"documents": documents, "schemas": schemas}


def openapi_v2(server):
    document = without_prose_of_operations(server.json("/openapi/v2"))
    document["definitions"] = reachable(document)
    return document


def reachable(document):
    """The definitions that the paths and parameters lead to."""
    definitions, found = document["definitions"], set()
    todo = [document["paths"], document["parameters"]]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo.extend(value)
        elif isinstance(value, dict):
            name = value.get("$ref", "")
            if isinstance(name, str) and name.startswith("#/definitions/"):
                name = name.removeprefix("#/definitions/")
                if name not in found:
                    found.add(name)
                    todo.append(definitions[name])
            todo.extend(value.values())
    return {name: definitions[name] for name in sorted(found)}


# The messages of gnostic's openapi.v2 on the path to every description of an operation: the message in each field, and the fields that are
# prose.
MESSAGES = {
    "Document": ({8: "Paths", 9: "Definitions", 10: "ParameterDefinitions"}, ()),
    "Paths": ({2: "NamedPathItem"}, ()),
    "NamedPathItem": ({2: "PathItem"}, ()),
    "PathItem": ({field: "Operation" for field in range(2, 9)} | {9: "ParametersItem"}, ()),
    "Operation": ({8: "ParametersItem"}, (3,)),
    "ParametersItem": ({1: "Parameter"}, ()),
    "Parameter": ({1: "BodyParameter", 2: "NonBodyParameter"}, ()),
    "BodyParameter": ({}, (1,)),
    "NonBodyParameter": ({1: "SubSchema", 2: "SubSchema", 3: "SubSchema", 4: "SubSchema"}, ()),
    "SubSchema": ({}, (3,)),
    "ParameterDefinitions": ({1: "NamedParameter"}, ()),
    "NamedParameter": ({2: "Parameter"}, ()),
    "Definitions": ({1: "NamedSchema"}, ()),
    "NamedSchema": ({}, ()),
}


def varint(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def encoded_varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields(data):
    """Every field of a message: number, the bytes of its key, and its value (of length-delimited fields the content)."""
    at = 0
    while at < len(data):
        start = at
        key, at = varint(data, at)
        kind = key & 7
        if kind == 2:
            length, at = varint(data, at)
            yield key >> 3, data[start:start + len(encoded_varint(key))], data[at:at + length], True
            at += length
        else:
            end = varint(data, at)[1] if kind == 0 else at + {1: 8, 5: 4}[kind]
            yield key >> 3, data[start:at], data[at:end], False
            at = end


def without_prose_in_protobuf(data, message, keep):
    """A message without its prose; `keep` says which names of paths and definitions stay."""
    inner, prose = MESSAGES[message]
    out = bytearray()
    for number, key, value, delimited in fields(data):
        if number in prose:
            continue
        if number in inner:
            if inner[number] in keep and name_of(value) not in keep[inner[number]]:
                continue
            # Only the outermost names are names of paths and definitions.
            below = {} if inner[number] in keep else keep
            value = without_prose_in_protobuf(value, inner[number], below)
        out += key + (encoded_varint(len(value)) if delimited else b"") + value
    return bytes(out)


def name_of(message):
    return next(value.decode() for number, _, value, _ in fields(message) if number == 1)


def openapi_v2_protobuf(server, document):
    request = urllib.request.Request(server.url + "/openapi/v2", headers={"Accept": OPENAPI_V2_PROTOBUF})
    with server.opener.open(request, timeout=60) as response:
        data = response.read()
    keep = {"NamedPathItem": set(document["paths"]), "NamedSchema": set(document["definitions"])}
    return without_prose_in_protobuf(data, "Document", keep)


def compact(value):
    """Compact JSON in lines, so that the documents of two releases can be compared. Without the line ends it is the document."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    # A quotation mark inside a text has a backslash before it.
    return text.replace('},"', '},\n"') + "\n"


def discovery_text(groups):
    """One line a resource, so that a change of version reads well as a diff."""
    lines = ["["]
    for i, group in enumerate(groups):
        lines.append(f'  {{"name": "{group["name"]}", "versions": [')
        for j, v in enumerate(group["versions"]):
            lines.append(f'    {{"version": "{v["version"]}", "resources": [')
            resources = [f"      {json.dumps(resource, sort_keys=True)}" for resource in v["resources"]]
            lines.append(",\n".join(resources))
            lines.append("    ]}" + ("," if j + 1 < len(group["versions"]) else ""))
        lines.append("  ]}" + ("," if i + 1 < len(groups) else ""))
    return "\n".join(lines + ["]", ""])


def bootstrap_policy(server):
    """The roles and bindings that kube-apiserver creates by itself."""
    kept, root = [], "/apis/rbac.authorization.k8s.io/v1/"
    for kind in ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]:
        for found in server.json(root + kind.lower() + "s")["items"]:
            names = ["name", "namespace", "labels", "annotations"]
            metadata = {name: found["metadata"][name] for name in names if name in found["metadata"]}
            rest = {name: value for name, value in found.items() if name != "metadata"}
            kept.append({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, **rest})
    return "[\n" + ",\n".join(json.dumps(each, sort_keys=True) for each in kept) + "\n]\n"


def main():
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    server, folder = Server(*sys.argv[1:5]), Path(sys.argv[5])
    folder.mkdir(parents=True, exist_ok=True)
    groups = discovery(server)
    check_aggregated(server, groups)
    (folder / "discovery.json").write_text(discovery_text(groups))
    (folder / "tables.json").write_text(tables_text(tables(server, groups)))
    (folder / "rbac.json").write_text(bootstrap_policy(server))
    (folder / "openapi-v3.json").write_text(compact(openapi_v3(server)))
    document = openapi_v2(server)
    (folder / "openapi-v2.json").write_text(compact(document))
    data = openapi_v2_protobuf(server, document)
    (folder / "openapi-v2.pb.gz").write_bytes(gzip.compress(data, compresslevel=9, mtime=0))


if __name__ == "__main__":
    main()
