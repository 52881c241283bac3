#!/usr/bin/env python3
"""Asks `cel-vectors` of each release again for the recorded answers, and writes them anew: the difference is the changed answers and costs.

    python3 answers.py path/of/the/cel-vectors/binary path/of/the/binary/with/kubernetes-1.37.mod

A file has the answers of 1.36. The file beside it with `.since-1.37` in its name has the questions to which 1.37 has another answer, and
those about what 1.37 introduces. A question with a name in back-ticks has the answer of 1.37 in both: the parser is that of the last release.
"""

import json
import pathlib
import subprocess
import sys

SOURCES = pathlib.Path(__file__).parents[2] / "crates/kubernetes-cel/src"
# Go visits the entries of a map in another order each time: if one of so many answers has another order than the others, the order is that of a
# map.
RUNS = 16


def ask(program, questions):
    text = "".join(json.dumps(question) + "\n" for question in questions)
    output = subprocess.run([program], input=text, capture_output=True, text=True, check=True).stdout
    return list(map(json.loads, output.splitlines()))


def unordered(value):
    """The value with sorted lists."""
    if isinstance(value, list):
        return sorted(map(unordered, value), key=json.dumps)
    if isinstance(value, dict):
        return {key: unordered(of) for key, of in sorted(value.items())}
    return value


class Recording:
    """A file of questions with their answers."""

    def __init__(self, file, asked, told, subject=lambda _: {}, failure="fails"):
        self.file = SOURCES / file
        self.later = self.file.with_suffix(f".since-1.37{self.file.suffix}")
        self.fields, self.told, self.subject, self.failure = asked, told, subject, failure

    def question(self, line):
        return {key: line[key] for key in self.fields if key in line}

    def line(self, question, answer):
        """The line of an answer."""
        line = dict(question)
        if "compileError" in answer:
            error = answer["compileError"]
            line[self.failure] = error.removeprefix("compilation failed: ") if self.is_bare else error
        else:
            line |= {key: answer[key] for key in self.told if key in answer}
            if "error" in line:
                line.pop("value", None)
        return line

    @property
    def is_bare(self):
        """Whether the errors have no prefix."""
        return self.file.name == "vectors.jsonl"

    def asked_again(self, program, lines):
        """The lines with new answers; a line is as it was if only the order of a map differs."""
        if not lines:
            return []
        made = self.asked(program, lines)
        reordered = [at for at, line in enumerate(lines) if made[at] != line and unordered(made[at]) == unordered(line)]
        again = self.asked(program, [lines[at] for at in reordered] * RUNS)
        for number, at in enumerate(reordered):
            if any(answer != made[at] for answer in again[number :: len(reordered)]):
                made[at] = lines[at]
        return made

    def asked(self, program, lines):
        questions = [self.question(line) for line in lines]
        answers = ask(program, [question | self.subject(question) for question in questions])
        return [self.line(*both) for both in zip(questions, answers, strict=True)]

    def remake(self, first, last):
        texts = self.file.read_text().splitlines()
        lines = list(map(json.loads, texts))
        later = list(map(json.loads, self.later.read_text().splitlines())) if self.later.exists() else []
        by_question = {json.dumps(self.question(line)): line for line in later}
        before = self.asked_again(first, lines)
        since = self.asked_again(last, [by_question.pop(json.dumps(self.question(line)), line) for line in lines])
        written, differing = [], []
        for text, line, of_first, of_last in zip(texts, lines, before, since, strict=True):
            if "unsupported syntax: '`'" in json.dumps(of_first):
                of_first = of_last
            written.append(text if of_first == line else json.dumps(of_first, ensure_ascii=False))
            differing += [of_last] if of_last != of_first else []
        differing += self.asked_again(last, list(by_question.values()))
        self.file.write_text("".join(text + "\n" for text in written))
        self.later.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in differing))
        print(f"{self.file.name}: {len(written)}, since 1.37 {len(differing)}")


def main():
    first, last = sys.argv[1:]
    data = SOURCES / "eval/testdata"
    objects = [{"object": json.loads((data / file).read_text())} for file in ["object.json", "deployment.json"]]
    schemas = json.loads((SOURCES / "estimate/testdata/schemas.json").read_text())
    subject = json.loads((SOURCES / "rules/testdata/subject.json").read_text())
    evaluated = ["cost", "error", "value"]

    def of_object(question):
        return objects["builtIn" in question]

    def of_schema(question):
        return {"schema": schemas[question["schema"]]}

    for recording in [
        Recording("eval/testdata/answers.jsonl", ["expression", "environment", "builtIn"], evaluated, of_object),
        Recording("eval/testdata/well-known.jsonl", ["expression"], evaluated, of_object),
        Recording("estimate/testdata/estimates.jsonl", ["schema", "expression"], ["estimate"], of_schema),
        Recording("rules/testdata/values.jsonl", ["expression"], evaluated, lambda _: subject),
        Recording("rules/testdata/definitions.jsonl", ["definition", "object"], ["errors"]),
        Recording(
            "library/vectors.jsonl", ["expression", "environment"], ["value", "error", "cost"], failure="compileError"
        ),
        Recording("testdata/check.jsonl", ["expression"], ["type"], failure="compileError"),
        Recording(
            "testdata/check-mutation.jsonl",
            ["expression"],
            ["type"],
            lambda _: {"environment": "mutation"},
            failure="compileError",
        ),
    ]:
        recording.remake(first, last)


main()
