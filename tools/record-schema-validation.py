#!/usr/bin/env python3
"""Writes what a kube-apiserver says of custom resources and of CustomResourceDefinitions: recorded.jsonl.gz of structural/validate and of
custom_resource_definition.

    tools/record-schema-validation.py FOLDER CRATE

FOLDER has the programs etcd and kube-apiserver; CRATE is crates/kubernetes-object/src. The script starts both on free ports of 127.0.0.1.

One JSON object a line. `schema` lines name a schema. `object` lines have the schema's name, the object, the stored object of an update, the
code and the causes [field, reason, message]. `definition` lines have the definition, the stored definition of an update, the code
and the causes.
"""

import copy
import gzip
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time

TOKEN = "recorder"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


class Server:
    def __init__(self, programs, folder, flags=()):
        client, peer, self.port = free_port(), free_port(), free_port()
        self.etcd_port = client
        with open(os.path.join(folder, "tokens.csv"), "w") as file:
            file.write(f'{TOKEN},admin,1,"system:masters"\n')
        key = os.path.join(folder, "key.pem")
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        log = open(os.path.join(folder, "log"), "w")
        self.processes = [subprocess.Popen([
            os.path.join(programs, "etcd"), f"--data-dir={folder}/etcd", f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}", f"--listen-peer-urls=http://127.0.0.1:{peer}", "--unsafe-no-fsync",
        ], stdout=log, stderr=log)]
        time.sleep(2)
        self.processes.append(subprocess.Popen([
            os.path.join(programs, "kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{client}", f"--secure-port={self.port}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", f"--cert-dir={folder}/certs",
            f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=AlwaysAllow", f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}", "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24", "--storage-media-type=application/json", *flags,
        ], stdout=log, stderr=log))
        for _ in range(120):
            try:
                if self.call("GET", "/readyz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(1)
        self.stop()
        sys.exit("kube-apiserver is not ready")

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()

    def call(self, method, path, body=None):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=60)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", "Accept": "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        text = answer.read()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text.decode(errors="replace")

    def put_in_storage(self, key, value):
        """Writes an object that no API server accepts any more."""
        import base64

        def encode(text):
            return base64.b64encode(text.encode()).decode()

        connection = http.client.HTTPConnection("127.0.0.1", self.etcd_port)
        connection.request("POST", "/v3/kv/put", json.dumps({"key": encode(key), "value": encode(json.dumps(value))}))
        answer = connection.getresponse()
        if answer.status != 200:
            sys.exit(f"etcd: {answer.read()}")


def causes(answer):
    if not isinstance(answer, dict):
        return []
    found = (answer.get("details") or {}).get("causes") or []
    return [[c.get("field", ""), c.get("reason", ""), c.get("message", "")] for c in found]


def result(code, answer):
    line = {"code": code, "causes": causes(answer)}
    if code not in (200, 201, 422):
        line["message"] = answer.get("message", "") if isinstance(answer, dict) else answer
    return line


# --- schemas and their objects

def of(**properties):
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def items(schema, **more):
    return {"type": "array", "items": schema, **more}


FORMATS = {
    "bsonobjectid": ["507f1f77bcf86cd799439011", "507f1f77bcf86cd79943901g", "", "507f1f77bcf86cd79943901"],
    "uri": ["http://a.b/c?d=e#f", "/a/b", "a/b", "", "http://[::1]:80/", "http://[::1", "http://a b/", "mailto:a@b", "http://a:b/", "%zz", "/%zz", "http://a/%41",
            "http://a\x7f/", ":foo", "1a://b", "http://user:pass@host/", "//a/b", "*", "http://a:80:90/", "http://a%zz/", "urn:isbn:1", "http://h:", "http://[fe80::1%25en0]/"],
    "email": ["a@b", "a@b.c", "A <a@b.c>", "a", "@b", "a@", "", "a b@c", "\"a b\"@c", "a@b@c", "<a@b>", "a.b@c.d", "a..b@c", ".a@b", "a@[1.2.3.4]", "a@b.", "ä@b.c",
              "a@b c", "A B <a@b>", "\"A, B\" <a@b>", "A, B <a@b>", "a@b (comment)", "a@b, c@d", "a+b=c@d", "=?utf-8?q?a?= <a@b>"],
    "hostname": ["a", "a.b", "a.bc", "1.2.3.4", "a_b", "-a", "a-", "a..b", "", "a." + "b" * 64, "x" * 64, "x" * 63, "a.example.com", "é.com", "a.b1", "☃.net", "A-b.Com", "a.com."],
    "ipv4": ["1.2.3.4", "01.2.3.4", "1.2.3", "256.1.1.1", "::1", "::ffff:1.2.3.4", "", "1.2.3.4.5", "001.002.003.004", "1.2.3.a"],
    "ipv6": ["::1", "1.2.3.4", "::ffff:1.2.3.4", "fe80::1%eth0", "1:2:3:4:5:6:7:8", "1::2::3", "g::1", "", "::ffff:01.2.3.4", "12345::", "::"],
    "cidr": ["1.2.3.4/8", "01.2.3.4/8", "1.2.3.4", "::1/64", "::1/129", "1.2.3.4/33", "1.2.3.4/08", "1.2.3.4/-1", "a/8", "", "1.2.3/8"],
    "mac": ["01:23:45:67:89:ab", "01-23-45-67-89-ab", "0123.4567.89ab", "01:23:45:67:89:ab:cd:ef", "01:23:45:67:89", "01:23-45:67:89:ab", "", "0123.4567.89ab.cdef",
            "0:23:45:67:89:ab", "01:23:45:67:89:ag", ":".join(["01"] * 20), ":".join(["01"] * 10)],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000", "123", "", "123e4567-e89b-12d3-a456-42661417400g"],
    "uuid3": ["123e4567-e89b-32d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"],
    "uuid4": ["123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-42d3-c456-426614174000"],
    "uuid5": ["123e4567-e89b-52d3-a456-426614174000", "123e4567-e89b-42d3-a456-426614174000"],
    "isbn": ["0321751043", "978-0321751041", "0321751044", "978 0321751041", "x", "032175104X"],
    "isbn10": ["0321751043", "080442957X", "978-0321751041"],
    "isbn13": ["978-0321751041", "9780321751042", "0321751043"],
    "creditcard": ["4111111111111111", "4111-1111-1111-1111", "4111111111111112", "1", "", "5555555555554444", "378282246310005"],
    "ssn": ["123-45-6789", "123 45 6789", "123456789", "12-345-6789", ""],
    "hexcolor": ["#FFFFFF", "fff", "#ffff", "", "#ggg"],
    "rgbcolor": ["rgb(255,255,255)", "rgb( 1 , 2 , 3 )", "rgb(256,1,1)", "rgb(1,2)", "rgb(01,1,1)"],
    "byte": ["aGk=", "aGk", "a?==", "", "aGk=\n", "aGkh", "a/+="],
    "password": ["", "x"],
    "date": ["2020-02-29", "2021-02-29", "2020-1-01", "2020-01-01T00:00:00Z", "", "0000-01-01", "2020-13-01", "2020-01-32"],
    "duration": ["1h", "1.5h", "22 ns", "1 week", "1 fortnight", "", "5", "2 days 3 hours", "-1h", "1us", "1µs", "x5s", "99999999999999999999s", "3 Weeks", "1 Secs", "1 m", "1 mins", "1 nanos", "0"],
    "date-time": ["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20z", "2014-12-15 19:30:20Z", "2014-12-15T19:30:20+01:00", "2014-12-15T24:30:20Z", "2014-12-15T19:30:60Z",
                  "2014-12-15T19:30:20", "", "2014-12-15T19:30:20,5Z", "2014-12-15T1:30:20Z", "2014-02-30T19:30:20Z", "2014-12-15T19:30:20+01:00T"],
    "datetime": ["2014-12-15T19:30:20.000Z", "x"],
    "k8s-short-name": ["a", "a-b", "A", "a.b", "-a", "", "x" * 64],
    "k8s-long-name": ["a.b", "a..b", "A", "x" * 254, "a-.b", ""],
    "ipv-4": ["1.2.3.4", "x"],
    "unknown": ["x", 5],
}


def formats():
    properties, values = {}, []
    for name, samples in FORMATS.items():
        properties[name] = {"type": "string", "format": name}
        values.append({name: 5})
        values.append({name: ["x"]})
        values.extend({name: sample} for sample in samples)
    return of(**properties), values


def specs(*values):
    return list(values)


DEEP = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": items(of(c=INTEGER)["properties"]["spec"])}}}}
OBJECTS = {
    "types": (of(s=STRING, i=INTEGER, n=NUMBER, b={"type": "boolean"}, a=items(STRING), o={"type": "object", "additionalProperties": INTEGER},
                 p={"type": "object", "properties": {"x": STRING}}, any={"x-kubernetes-preserve-unknown-fields": True},
                 ios={"x-kubernetes-int-or-string": True}, nul={"type": "string", "nullable": True}, deep=DEEP,
                 ios2={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], "maximum": 5, "maxLength": 2, "pattern": "^a"}),
        specs({}, {"s": 5}, {"s": True}, {"s": []}, {"s": {}}, {"s": 1.5}, {"s": None}, {"i": "5"}, {"i": 5.0}, {"i": 5.5}, {"i": 1e20}, {"i": -5.5}, {"i": 2 ** 63}, {"i": -0.5},
              {"n": 5}, {"n": 5.5}, {"n": "x"}, {"n": True}, {"b": "true"}, {"b": 1}, {"a": "x"}, {"a": {}}, {"a": [1, "x", None, []]}, {"a": [[]]}, {"o": {"x": "y", "z": 1.5}},
              {"o": []}, {"o": "x"}, {"o": {"a.b": "x", "": "y", "c/d": True}}, {"p": {"x": 1}}, {"p": 5}, {"p": [5]}, {"any": 5}, {"any": {"a": [1]}}, {"ios": 5}, {"ios": "x"},
              {"ios": 1.5}, {"ios": True}, {"ios": {}}, {"ios": None}, {"nul": None}, {"nul": 5}, {"ios2": 5}, {"ios2": 6}, {"ios2": "ab"}, {"ios2": "b"}, {"ios2": "abc"}, {"ios2": True},
              {"ios2": 1.5}, {"deep": {"a": {"b": [{"c": "x"}, {"c": 1}, 5, {"c": "y"}]}}}, {"s": 5, "i": "x", "b": []}, {"i": 9007199254740993.0}, {"n": 1e300}, {"i": 1e15})),
    "limits": (of(minimum={"type": "integer", "minimum": 3}, maximum={"type": "integer", "maximum": 3}, exmin={"type": "integer", "minimum": 3, "exclusiveMinimum": True},
                  exmax={"type": "number", "maximum": 3.5, "exclusiveMaximum": True}, fracmax={"type": "integer", "maximum": 5.5}, nfrac={"type": "number", "maximum": 5.5, "minimum": 1.5},
                  mult={"type": "integer", "multipleOf": 5}, multf={"type": "number", "multipleOf": 0.1}, multh={"type": "integer", "multipleOf": 0.5}, multn={"type": "number", "multipleOf": 2.5},
                  minlen={"type": "string", "minLength": 2}, maxlen={"type": "string", "maxLength": 3}, one={"type": "string", "maxLength": 1}, pat={"type": "string", "pattern": "^[a-z]+$"},
                  both={"type": "string", "minLength": 2, "pattern": "^[a-z]+$", "enum": ["ab", "cd"]}, i32={"type": "integer", "format": "int32"}, i64={"type": "integer", "format": "int64"},
                  f32={"type": "number", "format": "float"}, f64={"type": "number", "format": "double"}, odd={"type": "integer", "format": "foo"}, i32max={"type": "integer", "format": "int32", "maximum": 1e10},
                  minitems=items(STRING, minItems=2), maxitems=items(STRING, maxItems=2), maxone=items(STRING, maxItems=1), bigmax={"type": "number", "maximum": 1e30},
                  minprops={"type": "object", "minProperties": 2, "additionalProperties": STRING}, maxprops={"type": "object", "maxProperties": 1, "additionalProperties": STRING},
                  zero={"type": "integer", "maximum": 0, "minimum": 0}, closed={"type": "object", "additionalProperties": False, "x-kubernetes-preserve-unknown-fields": True}),
        specs({"minimum": 3}, {"minimum": 2}, {"minimum": 2.0}, {"minimum": "x"}, {"maximum": 4}, {"maximum": -4}, {"exmin": 3}, {"exmin": 4}, {"exmax": 3.5}, {"exmax": 3}, {"exmax": 4}, {"exmax": 3.6},
              {"fracmax": 5}, {"fracmax": 6}, {"nfrac": 5}, {"nfrac": 5.6}, {"nfrac": 6}, {"nfrac": 1}, {"nfrac": 1.4}, {"mult": 10}, {"mult": 7}, {"mult": -10}, {"mult": 7.0}, {"multf": 0.3}, {"multf": 0.35},
              {"multf": 1}, {"multf": 1000000.3}, {"multh": 1}, {"multn": 5.0}, {"multn": 5}, {"multn": 6}, {"multn": 7.5}, {"multn": -7.5}, {"multn": -1.0}, {"minlen": "a"}, {"minlen": "ä"}, {"minlen": "aä"},
              {"maxlen": "abcd"}, {"maxlen": "äöüß"}, {"maxlen": "äöü"}, {"one": "ab"}, {"pat": "A"}, {"pat": "a\n"}, {"pat": ""}, {"both": "A"}, {"both": "a"}, {"both": "AB"}, {"both": "xy"}, {"both": "ab"},
              {"i32": 2147483648}, {"i32": 2147483647}, {"i32": -2147483649}, {"i32": 1.5}, {"i32": "x"}, {"i64": 1.5}, {"i64": 9223372036854775808}, {"f32": 1e39}, {"f32": 1.5}, {"f32": 5}, {"f64": 1e308},
              {"f64": "x"}, {"odd": 5}, {"odd": "x"}, {"i32max": 5}, {"minitems": ["a"]}, {"minitems": ["a", "b"]}, {"maxitems": ["a", "b", "c"]}, {"maxone": ["a", "b"]}, {"bigmax": 5}, {"bigmax": 5.5},
              {"minprops": {"a": "b"}}, {"minprops": {}}, {"maxprops": {"a": "b", "c": "d"}}, {"maxprops": {"a": "b", "c": 5}}, {"zero": 1}, {"zero": -1}, {"closed": {}}, {"closed": {"a": 1}},
              {"minimum": 1, "maximum": 9, "pat": "9"}, {"f32": True}, {"i32": True}, {"i32": {}}, {"multf": "x"}, {"multn": 1e17})),
    "enums": (of(s={"type": "string", "enum": ["a", "b", "c \" d"]}, i={"type": "integer", "enum": [1, 2, 65]}, n={"type": "number", "enum": [1, 2.5]}, b={"type": "boolean", "enum": [True]},
                 nul={"type": "string", "nullable": True, "enum": ["a", None]}, o={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "enum": [{"a": 1, "b": "<"}, {}]},
                 a=items(INTEGER, enum=[[1, 2]]), ios={"x-kubernetes-int-or-string": True, "enum": ["A", 5]}, any={"x-kubernetes-preserve-unknown-fields": True, "enum": [1, "x", None, [1]]}),
        specs({"s": "a"}, {"s": "x"}, {"s": "A\"\n<é"}, {"s": 5}, {"i": 1}, {"i": 3}, {"i": 1.0}, {"i": "x"}, {"n": 1}, {"n": 2.5}, {"n": 2}, {"n": 2.0}, {"n": 1.0}, {"n": 1e21}, {"b": False}, {"b": True},
              {"nul": None}, {"nul": "a"}, {"nul": "b"}, {"o": {"a": 1, "b": "<"}}, {"o": {"b": "<", "a": 2}}, {"o": {}}, {"o": {"a": 1.0, "b": "<"}}, {"a": [1, 2]}, {"a": [2, 1]}, {"ios": 65}, {"ios": "A"}, {"ios": 5},
              {"ios": 6}, {"ios": "B"}, {"any": 1}, {"any": 1.5}, {"any": None}, {"any": [1]}, {"any": ["<&>"]}, {"any": True})),
    "required": ({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object", "required": ["a", "b"], "properties": {"a": STRING, "b": STRING, "c": {
        "type": "object", "required": ["d.e", ""], "properties": {"d.e": STRING, "": STRING}}, "l": items({"type": "object", "required": ["x"], "properties": {"x": STRING}})}}}},
        specs(None, {}, {"a": "x"}, {"a": "x", "b": "y", "c": {}}, {"a": "x", "b": "y", "c": {"d.e": "x", "": 5}}, {"a": "x", "b": "y", "l": [{}, {"x": "y"}, {}]}, {"a": None, "b": "y"}, "x", 5)),
    "combined": (of(all={"type": "object", "properties": {"a": INTEGER, "b": STRING}, "allOf": [{"required": ["a"]}, {"properties": {"a": {"minimum": 3}}}, {"properties": {"b": {"maxLength": 2}}}]},
                    any={"type": "object", "properties": {"a": INTEGER, "b": STRING}, "anyOf": [{"required": ["a"], "properties": {"a": {"minimum": 3}}}, {"required": ["b"], "properties": {"b": {"pattern": "^x"}}}]},
                    one={"type": "object", "properties": {"a": INTEGER, "b": STRING}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
                    no={"type": "object", "properties": {"a": INTEGER}, "not": {"required": ["a"]}}, nostr={"type": "string", "not": {"pattern": "^a"}},
                    deep=items({"type": "string", "anyOf": [{"minLength": 5}, {"allOf": [{"pattern": "^a"}, {"not": {"enum": ["ax"]}}]}]}),
                    fmt={"type": "string", "oneOf": [{"format": "ipv4"}, {"format": "ipv6"}]}, num={"type": "number", "anyOf": [{"maximum": 1}, {"minimum": 5, "multipleOf": 5}]},
                    nine={"type": "integer", "allOf": [{"anyOf": [{"maximum": 1}, {"minimum": 9}]}, {"oneOf": [{"multipleOf": 3}, {"multipleOf": 2}]}]}),
        specs({"all": {}}, {"all": {"a": 1}}, {"all": {"a": 3}}, {"all": {"a": 1, "b": "xyz"}}, {"all": {"a": "x"}}, {"any": {}}, {"any": {"a": 1}}, {"any": {"a": 3}}, {"any": {"b": "y"}}, {"any": {"a": 1, "b": "y"}},
              {"any": {"b": "xy"}}, {"one": {}}, {"one": {"a": 1}}, {"one": {"a": 1, "b": "x"}}, {"one": {"a": "x"}}, {"no": {}}, {"no": {"a": 1}}, {"nostr": "a"}, {"nostr": "b"}, {"deep": ["abc", "ax", "b", "bcdefg"]},
              {"fmt": "1.2.3.4"}, {"fmt": "::1"}, {"fmt": "x"}, {"fmt": 5}, {"num": 3}, {"num": 7}, {"num": 10}, {"num": 0.5}, {"nine": 6}, {"nine": 12}, {"nine": 9}, {"nine": 5}, {"nine": 11}, {"one": "x"}, {"any": 5}, {"no": "x"})),
    "lists": (of(set=items(STRING, **{"x-kubernetes-list-type": "set"}), nums=items(NUMBER, **{"x-kubernetes-list-type": "set"}),
                 objects=items({"type": "object", "x-kubernetes-map-type": "atomic", "x-kubernetes-preserve-unknown-fields": True}, **{"x-kubernetes-list-type": "set"}),
                 lists=items(items(INTEGER), **{"x-kubernetes-list-type": "set"}),
                 map=items({"type": "object", "required": ["name"], "properties": {"name": STRING, "v": INTEGER, "inner": items(STRING, **{"x-kubernetes-list-type": "set"})}}, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
                 opt=items({"type": "object", "properties": {"name": {"type": "string", "default": "d"}, "port": {"type": "integer", "default": 1}}}, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"]}),
                 dict={"type": "object", "additionalProperties": items(STRING, **{"x-kubernetes-list-type": "set"})}),
        specs({"set": ["a", "b"]}, {"set": ["a", "b", "a", "a"]}, {"set": ["a", 5, 5]}, {"nums": [1, 1.0, 2, 2]}, {"nums": [1.5, 1.5]}, {"objects": [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {}]}, {"objects": [{}, {}]},
              {"lists": [[1], [1], [2]]}, {"map": [{"name": "a"}, {"name": "a"}, {"name": "a"}]}, {"map": [{"name": "a", "v": 1}, {"name": "b", "v": 1}]}, {"map": [{}, {}]}, {"map": [{"name": "a"}, 5]}, {"map": [5]},
              {"map": [{"name": "a", "inner": ["x", "x"]}]}, {"map": [{"name": 5}, {"name": 5}]}, {"opt": [{}, {}]}, {"opt": [{"name": "a"}, {"name": "a", "port": 2}]}, {"opt": [{"name": "a"}, {"name": "a", "port": 1}]},
              {"dict": {"a": ["x", "x"], "b": ["y"]}}, {"set": [None, None]}, {"set": []}, {"map": ["x", {"name": "a"}, {"name": "a"}]}, {"opt": [{"name": "é<", "port": 3}, {"name": "é<", "port": 3}]})),
    "embedded": (of(e={"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
                    l=items({"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object", "properties": {"a": INTEGER}}}}),
                    m={"type": "object", "additionalProperties": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}}),
        specs({"e": {}}, {"e": {"apiVersion": "v1", "kind": "Pod"}}, {"e": {"apiVersion": "", "kind": ""}}, {"e": {"apiVersion": "a/b/c", "kind": "Foo_Bar"}}, {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b"}}},
              {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "..", "namespace": "A_B"}}}, {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a b": "c d", "x": "y"}}}},
              {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {"A b": "c"}, "finalizers": ["x y", "a.b/c"]}}}, {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"generation": -1}}},
              {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}, {"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "b"}]}}},
              {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "b", "controller": True}, {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "c", "controller": True}]}}},
              {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a%-", "name": "x%y"}}}, {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"managedFields": [{"operation": "X", "fieldsType": "Y", "manager": "m" * 130, "subresource": "s" * 300}]}}},
              {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"finalizers": ["orphan", "foregroundDeletion"]}}}, {"l": [{}, {"apiVersion": "v1", "kind": "Pod", "spec": {"a": "x"}}]}, {"m": {"x": {}, "y": {"apiVersion": "v1", "kind": "P d"}}},
              {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {"a": "x" * 262144}}}}, {"e": 5}, {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "x" * 64}}}})),
    "ruled": ({"type": "object", "x-kubernetes-validations": [{"rule": "true"}], "properties": {"spec": {"type": "object", "required": ["r"], "properties": {
        "r": STRING, "s": {"type": "string", "maxLength": 2, "pattern": "^a"}, "i": {"type": "integer", "maximum": 5}, "e": {"type": "string", "enum": ["a"]}, "l": items(STRING, maxItems=1)}}}},
        specs({}, {"r": "x"}, {"r": "x", "i": 6}, {"r": "x", "i": "y"}, {"r": "x", "s": "abc"}, {"r": "x", "s": "b"}, {"r": "x", "e": "b"}, {"r": "x", "l": ["a", "b"]})),
    "root": ({"type": "object", "minProperties": 5, "anyOf": [{"required": ["x"]}, {"required": ["y"]}], "properties": {"spec": {"type": "object"}, "x": INTEGER, "y": INTEGER,
              "metadata": {"type": "object", "properties": {"name": {"type": "string", "pattern": "^a", "maxLength": 3}}}}},
        specs({}, "x")),
}
EXTRA = {
    "root": [{"x": 1}, {"x": "z"}, {"x": 1, "y": 2}, {"x": 1, "metadata": {"name": "bcde"}}, {"x": 1, "metadata": {"name": "A_b"}}, {"x": 1, "metadata": {"name": "abcd", "labels": {"a b": "c"}}}],
}
SCALE = (of(replicas={"type": "integer"}), specs({"replicas": -1}, {"replicas": 2 ** 31}, {"replicas": 3}, {"replicas": "x"}, {"replicas": 1.5}, {}))

# Updates: the schema is tightened after the old object is stored.
LOOSE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TIGHT = {"type": "object", "properties": {"spec": {"type": "object", "required": ["must"], "maxProperties": 12, "properties": {
    "must": STRING, "s": {"type": "string", "maxLength": 2}, "i": {"type": "integer", "maximum": 5}, "o": {"type": "object", "required": ["r"], "properties": {"r": STRING, "x": {"type": "string", "enum": ["a"]}, "y": INTEGER}},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "required": ["z"], "properties": {"z": STRING}},
    "dict": {"type": "object", "additionalProperties": {"type": "object", "properties": {"v": {"type": "string", "pattern": "^a"}, "w": STRING}}},
    "atomic": items({"type": "object", "properties": {"x": {"type": "integer", "maximum": 5}}}), "set": items({"type": "string", "maxLength": 2}, **{"x-kubernetes-list-type": "set"}),
    "map": items({"type": "object", "required": ["k"], "properties": {"k": STRING, "x": {"type": "integer", "maximum": 5}, "y": STRING}}, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
    "all": {"type": "object", "properties": {"a": {"type": "integer"}, "b": STRING}, "allOf": [{"properties": {"a": {"maximum": 5}}}]},
    "any": {"type": "string", "anyOf": [{"maxLength": 1}, {"pattern": "^a"}]}}}, "status": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}, "m": STRING}}}}
STORED = {"s": "long", "i": 9, "o": {"x": "b", "y": 1}, "free": {"a": 1}, "dict": {"k": {"v": "b"}, "l": {"v": "c"}}, "atomic": [{"x": 9}, {"x": 1}], "set": ["long", "a", "a"],
          "map": [{"k": "a", "x": 9}, {"k": "b", "x": 1}], "all": {"a": 9}, "any": "bcd"}


def changed(*changes):
    """The stored spec with changes: (path, value); a value of ... removes."""
    spec = copy.deepcopy(STORED)
    for path, value in changes:
        at = spec
        *before, last = path
        for step in before:
            at = at[step]
        if value is ...:
            del at[last]
        else:
            at[last] = value
    return spec


UPDATES = [
    changed(), changed((("must",), "x")), changed((("s",), "other")), changed((("s",), "ok")), changed((("i",), 8)), changed((("i",), 9.0)), changed((("o", "y"), 2)), changed((("o", "x"), "c")), changed((("o", "r"), "r")),
    changed((("free", "a"), 2)), changed((("free", "z"), 5)), changed((("dict", "k", "w"), "x")), changed((("dict", "k", "v"), "d")), changed((("dict", "m"), {"v": "b"})), changed((("dict", "l"), ...)),
    changed((("atomic",), [{"x": 9}])), changed((("atomic",), [{"x": 9}, {"x": 2}])), changed((("atomic",), [{"x": 1}, {"x": 9}])), changed((("set",), ["long", "b"])), changed((("set",), ["b", "b"])), changed((("set",), ["long", "a", "a", "a"])),
    changed((("map",), [{"k": "b", "x": 1}, {"k": "a", "x": 9}])), changed((("map", 0, "y"), "z")), changed((("map", 0, "x"), 8)), changed((("map", 1, "x"), 7)), changed((("map",), [{"k": "a", "x": 9}, {"k": "a", "x": 9}])),
    changed((("map",), [{"k": "c", "x": 9}])), changed((("map",), [{"x": 9}])), changed((("all", "b"), "x")), changed((("all", "a"), 8)), changed((("any",), "bce")), changed((("any",), "a")), changed((("s",), None)),
    changed((("s",), ...), (("must",), "x")), changed((("s",), 5)), {}, {"must": "x"}, changed((("o",), {"x": "b", "y": 1, "r": 5})), changed((("must",), 5)), changed((("map", 0, "k"), "z")),
]
METADATA = [{"labels": {"a b": "c d"}}, {"annotations": {"a b": "c"}}, {"finalizers": ["a b"]}, {"ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "a", "uid": "b"}]},
            {"ownerReferences": [{"apiVersion": "a/b/c", "kind": "A", "name": "a", "uid": "b"}]}, {"generateName": "A_"}]
STATUSES = [{"n": 9}, {"n": 8}, {"n": 9, "m": "x"}, {"n": 9, "m": 5}, {}, None, {"n": 1}, "x"]


def crd(plural, schema, **version):
    kind = plural.capitalize()
    spec = {"group": "lab.dev", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}]}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.lab.dev"},
            "spec": spec}


def establish(server, definition):
    code, answer = server.call("POST", CRD, definition)
    if code != 201:
        sys.exit(f"{definition['metadata']['name']}: {answer}")
    plural = definition["spec"]["names"]["plural"]
    wait(server, f"/apis/lab.dev/v1/namespaces/default/{plural}")


def wait(server, path):
    for _ in range(100):
        if server.call("GET", path)[0] == 200:
            return
        time.sleep(0.2)
    sys.exit(f"{path} is not served")


def objects(server, write):
    cases = {}
    for name, (schema, values) in OBJECTS.items():
        cases[name] = (schema, [{"spec": spec} if spec is not None else {} for spec in values] + EXTRA.get(name, []), {})
    schema, values = formats()
    cases["formats"] = (schema, [{"spec": value} for value in values], {})
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    cases["scaled"] = (SCALE[0], [{"spec": spec} for spec in SCALE[1]], {"subresources": {"scale": scale}})
    for name, (schema, _, version) in cases.items():
        establish(server, crd(name, schema, **version))
    for name, (schema, values, version) in cases.items():
        write({"schema": name, "is": schema, **version})
        for value in values:
            value = {"apiVersion": "lab.dev/v1", "kind": name.capitalize(), **value}
            value["metadata"] = {"name": "a", **value.get("metadata", {})}
            code, answer = server.call("POST", f"/apis/lab.dev/v1/namespaces/default/{name}?dryRun=All&fieldValidation=Ignore", value)
            write({"object": value, "of": name, **result(code, answer)})
    updates(server, write)


def updates(server, write):
    name, definition = "rats", crd("rats", LOOSE, subresources={"status": {}})
    establish(server, definition)
    path = f"/apis/lab.dev/v1/namespaces/default/{name}"
    code, stored = server.call("POST", path, {"apiVersion": "lab.dev/v1", "kind": "Rats", "metadata": {"name": "a"}, "spec": STORED})
    if code != 201:
        sys.exit(str(stored))
    stored["status"] = {"n": 9}
    code, stored = server.call("PUT", f"{path}/a/status", stored)
    if code != 200:
        sys.exit(str(stored))
    code, live = server.call("GET", f"{CRD}/{name}.lab.dev")
    live["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = TIGHT
    code, answer = server.call("PUT", f"{CRD}/{name}.lab.dev", live)
    if code != 200:
        sys.exit(str(answer))
    invalid = {"apiVersion": "lab.dev/v1", "kind": "Rats", "metadata": {"name": "b"}, "spec": {}}
    for _ in range(100):
        if server.call("POST", f"{path}?dryRun=All", invalid)[0] == 422:
            break
        time.sleep(0.2)
    time.sleep(2)
    stored["metadata"].pop("managedFields", None)
    write({"schema": name, "is": TIGHT, "subresources": {"status": {}}})
    for spec in UPDATES:
        value = {**stored, "spec": spec}
        code, answer = server.call("PUT", f"{path}/a?dryRun=All&fieldValidation=Ignore", value)
        write({"object": value, "of": name, "old": stored, **result(code, answer)})
    for metadata in METADATA:
        value = {**stored, "spec": {"must": "x"}, "metadata": {**stored["metadata"], **metadata}}
        code, answer = server.call("PUT", f"{path}/a?dryRun=All&fieldValidation=Ignore", value)
        write({"object": value, "of": name, "old": stored, **result(code, answer)})
    for status in STATUSES:
        value = {**stored, "status": status}
        code, answer = server.call("PUT", f"{path}/a/status?dryRun=All&fieldValidation=Ignore", value)
        write({"object": value, "of": name, "old": stored, "subresource": "status", **result(code, answer)})


def keep(server, record, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    lines = []
    record(server, lambda line: lines.append(json.dumps(line, separators=(",", ":"), ensure_ascii=False)))
    with open(path, "wb") as file:
        file.write(gzip.compress("".join(f"{line}\n" for line in lines).encode(), 9, mtime=0))


def main(programs, crate):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    with tempfile.TemporaryDirectory() as folder:
        server = Server(programs, folder)
        try:
            keep(server, objects, os.path.join(crate, "structural/validate/recorded.jsonl.gz"))
            keep(server, definitions, os.path.join(crate, "custom_resource_definition/recorded.jsonl.gz"))
        finally:
            server.stop()


def definitions(server, write):
    import definition_cases as cases
    cases.record(server, write, CRD, result, crd, wait)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
