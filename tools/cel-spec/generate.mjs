// Writes the tests of the language's specification (https://github.com/google/cel-spec, Apache-2.0) that the npm package
// @bufbuild/cel-spec carries, one JSON object a line: the test's name, the expression, and what it comes to.
//
//	npm pack @bufbuild/cel-spec && tar xzf bufbuild-cel-spec-*.tgz
//	node generate.mjs package/dist/esm/testdata/conformance.js ../../crates/kubernetes-cel/src/conformance/left_out.txt > ../../crates/kubernetes-cel/src/conformance/tests.jsonl
//
// Left out is what Kubernetes' environment cannot express: messages of protobuf and what is declared with them, containers, and
// the extensions that it does not have. Which tests these are, and why, goes to the file named second.

import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { tests } = await import(pathToFileURL(process.argv[2]).href);

// Suites that Kubernetes' environment has not got.
const EXTENSIONS = {
  math_ext: "ext.Math is not enabled",
  encoders_ext: "ext.Encoders is not enabled",
  bindings_ext: "cel.bind is not enabled",
  block_ext: "cel.@block is not enabled",
  network_ext: "not Kubernetes' own ip and cidr",
  proto2: "messages of protobuf",
  proto2_ext: "messages of protobuf",
  proto3: "messages of protobuf",
  enums: "enums of protobuf",
  dynamic: "messages of protobuf",
  wrappers: "messages of protobuf",
};
const MESSAGES =
  /TestAllTypes|NestedTestAllTypes|google\.protobuf\.(?!Duration\b|Timestamp\b)|google\.protobuf\.(Duration|Timestamp)\s*\{|cel\.expr|GlobalEnum|TestRequired/;

function reason(suite, test) {
  if (EXTENSIONS[suite]) return EXTENSIONS[suite];
  const text = JSON.stringify([test.expr, test.bindings ?? {}, test.typeEnv ?? [], test.value ?? {}]);
  if (MESSAGES.test(text.replaceAll("type.googleapis.com/google.protobuf.", "")) ) return "messages of protobuf";
  if (test.container) return "a container";
  if (test.disableCheck) return "not checked";
  if (test.checkOnly) return "only checked";
  if (test.unknown || test.anyUnknowns) return "unknown values";
  return null;
}

const left = [];
function walk(suite, path) {
  for (const { original } of suite.tests ?? []) {
    const name = [...path, original.name].join("/");
    const why = reason(path[0], original);
    if (why) {
      left.push(`${name}: ${why}`);
      continue;
    }
    const { expr, value, typedResult, evalError, bindings, typeEnv } = original;
    const line = { name, expr };
    if (evalError) line.error = true;
    else line.value = value ?? typedResult?.result ?? { boolValue: true };
    if (bindings) line.bindings = bindings;
    if (typeEnv) line.declarations = typeEnv;
    console.log(JSON.stringify(line));
  }
  for (const inner of suite.suites ?? []) walk(inner, [...path, inner.name]);
}
walk(tests, []);
if (process.argv[3]) writeFileSync(process.argv[3], left.join("\n") + "\n");
