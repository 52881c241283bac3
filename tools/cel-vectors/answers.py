#!/usr/bin/env python3
"""Asks `cel-vectors` again for the recorded answers, and writes them anew: what differs after a move to another version of
Kubernetes is a changed answer or cost.

    python3 answers.py path/of/the/cel-vectors/binary
"""

import json
import pathlib
import subprocess
import sys

SOURCES = pathlib.Path(__file__).parents[2] / "crates/kubernetes-cel/src"


def ask(questions):
    text = "".join(json.dumps(question) + "\n" for question in questions)
    answers = subprocess.run([sys.argv[1]], input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    return list(map(json.loads, answers))


def remake(file, subject, asked, told):
    """The lines of a file have of their own what is `asked`; what is `told` of the answer is written beside it."""
    lines = []
    recorded = [json.loads(line) for line in file.read_text().splitlines()]
    questions = [{key: line[key] for key in asked if key in line} for line in recorded]
    for question, answer in zip(questions, ask(question | subject(question) for question in questions), strict=True):
        line = dict(question)
        if "compileError" in answer:
            line["fails"] = answer["compileError"]
        else:
            line |= {key: answer[key] for key in told if key in answer}
            if "error" in line:
                line.pop("value", None)
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    file.write_text("".join(lines))


def main():
    data = SOURCES / "eval/testdata"
    subject = {"object": json.loads((data / "object.json").read_text())}
    remake(data / "answers.jsonl", lambda _: subject, ["expression", "environment"], ["cost", "error", "value"])
    remake(data / "well-known.jsonl", lambda _: subject, ["expression"], ["cost", "error", "value"])
    data = SOURCES / "estimate/testdata"
    schemas = json.loads((data / "schemas.json").read_text())

    def of_schema(question):
        return {"schema": schemas[question["schema"]]}

    remake(data / "estimates.jsonl", of_schema, ["schema", "expression"], ["estimate"])
    data = SOURCES / "rules/testdata"
    subject = json.loads((data / "subject.json").read_text())
    remake(data / "values.jsonl", lambda _: subject, ["expression"], ["cost", "error", "value"])
    remake(data / "definitions.jsonl", lambda _: {}, ["definition", "object"], ["errors"])


main()
