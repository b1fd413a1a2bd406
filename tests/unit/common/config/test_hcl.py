"""HCL: literals with their lines; what is no literal is refused by line, and a syntax error shows where, never what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.config.hcl import parse
from common.config.template import Rendered, render
from common.config.values import Block, Problem, Value
from common.errors import ConfigurationError


def tree(source: str) -> tuple[Block, list[Problem]]:
    return parse(Rendered(source, "no_marker_"), path="f.hcl")


def plain(entry: Any) -> Any:
    if isinstance(entry, Value):
        return plain(entry.data)
    if isinstance(entry, Block):
        return [(key, plain(inner)) for key, _, inner in entry.entries]
    if isinstance(entry, list):
        return [plain(item) for item in entry]
    return {key: plain(item) for key, item in entry.items()} if isinstance(entry, dict) else entry


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('"text"', "text"),
        ('""', ""),
        (r'"a\"b\\c\n\t\u00e9"', 'a"b\\c\n\té'),
        ('"$${x} %%{y} $ % $$ 5%"', "${x} %{y} $ % $$ 5%"),
        ("7", 7),
        ("-7", -7),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("null", None),
        ('["a", 1, [true],]', ["a", 1, [True]]),
        ('{ a = 1, "b.c" : "x" }', {"a": 1, "b.c": "x"}),
        ("<<E\nline 1\n  line 2\nE\n", "line 1\n  line 2"),
        ("<<-E\n  line 1\n  line 2\n  E\n", "line 1\nline 2"),
    ],
)
def test_literals(text: str, data: Any) -> None:
    root, problems = tree(f"a = {text}\n")
    assert problems == []
    assert plain(root) == [("a", data)]


def test_blocks_repeat_nest_and_may_stand_on_one_line() -> None:
    root, problems = tree('a { b = 1  c = "x" }\na {\n  d { }\n}\n')
    assert problems == []
    assert plain(root) == [("a", [("b", 1), ("c", "x")]), ("a", [("d", [])])]


def test_every_part_knows_its_line() -> None:
    root, _ = tree('# one\na {\n  b = [\n    "x",\n    "y"\n  ]\n\n  c = 1\n}\n')
    block = root.entries[0][2]
    assert isinstance(block, Block)
    assert block.line == 2
    assert [(key, line) for key, line, _ in block.entries] == [("b", 3), ("c", 8)]
    value = block.entries[0][2]
    assert isinstance(value, Value)
    assert [item.line for item in value.data] == [4, 5]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("env", "double quotes"),
        ('env("X")', "is an expression"),
        ("1 + 2", "is an expression"),
        ("a ? 1 : 2", "is an expression"),
        ('"${x}"', "interpolation"),
        ('"%{ if x }y%{ endif }"', "interpolation"),
        ("[for x in y : x]", "is an expression"),
        ('{ (a) = "x" }', "is an expression"),
        ("var.x", "is an expression"),
        ('{ b.c = "x" }', "a map's key with dots must be in double quotes"),
        ('"${LOCKS}"', 'to read a variable write {{ env("LOCKS") }}'),
        ('"${env.LOCKS}"', 'to read a variable write {{ env("LOCKS") }}'),
        ('"hunter2${X}"', 'to read a variable write {{ env("NAME") }}'),
        ("<<E\n${x}\nE\n", 'to read a variable write {{ env("NAME") }}'),
        ("<<E\n${x}\nE\n", "interpolation"),
        (r'"host\instance"', "escape"),
        (r'"\ud800"', "escape"),
        ('"two\nlines"', "own line"),
        ("-true", "is an expression"),
    ],
)
def test_what_is_no_literal_is_refused_by_line_and_the_rest_is_read(text: str, words: str) -> None:
    root, problems = tree(f"\na = {text}\nb = 1\n")
    assert [problem.line for problem in problems] == [2]
    assert words in problems[0].text
    assert plain(root)[-1] == ("b", 1)


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "no_marker_0_"])
def test_a_number_with_thousands_of_digits_is_refused_by_line(number: str) -> None:
    root, problems = parse(Rendered(f"\na = {number}\nb = 1\n", "no_marker_", ["9" * 5000]), path="f.hcl")
    assert problems == [Problem(2, '"a" has more digits than a number may have')]
    assert plain(root)[-1] == ("b", 1)


def test_a_block_has_its_label() -> None:
    root, problems = tree('output "stream" {\n}\noutput {\n}\n')
    assert problems == []
    assert [entry.label for _, _, entry in root.entries if isinstance(entry, Block)] == ["stream", None]


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ('"a" "b"', 'block "output" takes one label at most'),
        ("stream", 'block "output": a label must be in double quotes'),
        ('"a${b}"', 'block "output": a label is plain text'),
        ('"{{ env("X") }}"', 'block "output": a value from the environment cannot be a label'),
    ],
)
def test_what_is_not_a_label_is_a_problem_of_its_line(label: str, words: str) -> None:
    text = f"a = 1\noutput {label} {{\n}}\n"
    _, problems = parse(render(text, path="f.hcl", environ={"X": "x"}), path="f.hcl")
    assert problems == [Problem(2, words)]


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("a = 1\nb = \nc = 2\n", 2, "column"),
        ("a = 1\nb = 2 3\n", 2, "column"),
        ("a {\n  b = 1\n", 1, "not closed"),
        ("a {\n  b {\n  }\n  c = [1,\n", 4, "not closed"),
        ('a = "x\nb = "y"\n', 1, "quote"),
        ('a = "x\\"\nb = 1\n', 1, "quote"),
        ("a = 1\n}\n", 2, "column"),
        ("a = 'x'\n", 1, "column 5: text must be in double quotes"),
        ("a = 1\nb = ['x']\n", 2, "column 6: text must be in double quotes"),
        ("\n\na: 1\n", 3, "column 2: write = between a name and its value"),
        ('a {\n  b : "x"\n}\n', 2, "column 5: write = between a name and its value"),
        ('a {\n  b.c.d = "x"\n}\n', 2, "column 4: a name with dots must be in double quotes, inside of a map: a = {"),
        ('# one\na = "x # two\nb = 1\n', 2, "quote"),
        ('a = 1 # one\nb = "x\nc = "y"\nd = "z"\n', 2, "quote"),
        ("# {\na {\n  b = 1 // }\n", 2, "not closed"),
        ("# one\na {\n  b {\n    c = 1\n}\n\nd {\n  e = 1\n}\n", 3, "not closed"),
        ("a {\n  b = [\n    1\n  ]\n  c {\n    d = 1\n\n  e = { f = 1 }\n}\n", 5, "not closed"),
        ('a = "%{ if x }"\n', 1, "directive"),
    ],
)
def test_a_syntax_error_names_the_line_where_it_began(source: str, line: int, words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        tree(source)
    assert raised.value.problems[0].startswith(f"f.hcl:{line}: syntax: ")
    assert words in raised.value.problems[0]


def test_a_syntax_error_shows_nothing_of_the_file() -> None:
    with pytest.raises(ConfigurationError) as raised:
        tree('password = "x" hunter2 "hunter2"\n')
    assert "hunter2" not in str(raised.value)


EXAMPLE = (Path(__file__).parents[4] / "dstream.hcl").read_text(encoding="utf-8").splitlines(keepends=True)


@pytest.mark.parametrize(
    "line", [number for number, line in enumerate(EXAMPLE, 1) if line.split("#")[0].rstrip()[-1:] == '"']
)
def test_in_the_example_a_missing_quote_is_told_at_its_line(line: int) -> None:
    text, comment, rest = EXAMPLE[line - 1].partition("#")
    spoilt = text.rstrip()[:-1] + " " + comment + rest.rstrip("\n") + "\n"
    with pytest.raises(ConfigurationError) as raised:
        parse(render("".join([*EXAMPLE[: line - 1], spoilt, *EXAMPLE[line:]]), path="f.hcl", environ={}), path="f.hcl")
    assert raised.value.problems[0] == f"f.hcl:{line}: syntax: a quote is not closed on this line"


def _blocks() -> list[tuple[int, int]]:
    opened, found = list[int](), list[tuple[int, int]]()
    for number, line in enumerate(EXAMPLE, 1):
        if line.split("#")[0].rstrip().endswith("{"):
            opened.append(number)
        elif line.strip() == "}":
            found.append((opened.pop(), number))
    return found


@pytest.mark.parametrize(("line", "end"), _blocks())
def test_in_the_example_a_block_that_does_not_end_is_told_where_it_begins(line: int, end: int) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse(render("".join([*EXAMPLE[: end - 1], *EXAMPLE[end:]]), path="f.hcl", environ={}), path="f.hcl")
    assert raised.value.problems[0] == f"f.hcl:{line}: syntax: the bracket or block opened here is not closed"
