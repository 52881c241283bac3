#!/usr/bin/env python3
"""Asks `cel-vectors` again for the recorded answers, and writes them anew: what differs after a move to another version of
Kubernetes is a changed answer or cost.

    python3 answers.py path/of/the/cel-vectors/binary
"""

import json
import pathlib
import subprocess
import sys

DATA = pathlib.Path(__file__).parents[2] / "src/cel/eval/testdata"


def main():
    recorded = [json.loads(line) for line in (DATA / "answers.jsonl").read_text().splitlines()]
    subject = json.loads((DATA / "object.json").read_text())
    questions = [{key: line[key] for key in ("expression", "environment") if key in line} | {"object": subject} for line in recorded]
    text = "".join(json.dumps(question) + "\n" for question in questions)
    answers = subprocess.run([sys.argv[1]], input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    lines = []
    for question, answer in zip(questions, map(json.loads, answers), strict=True):
        line = {key: question[key] for key in ("expression", "environment") if key in question}
        if "compileError" in answer:
            line["fails"] = answer["compileError"]
        else:
            line |= {key: answer[key] for key in ("cost", "error", "value") if key in answer}
            if "error" in line:
                line.pop("value", None)
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    (DATA / "answers.jsonl").write_text("".join(lines))


main()
