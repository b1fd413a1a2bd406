"""Values from the environment: every spelling is read, and no character of a value can do anything but be itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.config.hcl import parse
from common.config.template import render
from common.config.values import Unset, Value
from common.errors import ConfigurationError


def read(source: str, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The settings of a file without blocks; any complaint fails the test."""
    root, problems = parse(render(source, path="f.hcl", environ=environ or {}), path="f.hcl")
    assert problems == []
    return {key: entry.data for key, _, entry in root.entries if isinstance(entry, Value)}


def complaints(source: str, environ: Mapping[str, str] | None = None) -> list[tuple[int, str]]:
    _, problems = parse(render(source, path="f.hcl", environ=environ or {}), path="f.hcl")
    return [(problem.line, problem.text) for problem in problems]


def test_a_value_that_is_no_text_is_refused_by_line() -> None:
    """Python stands half of a surrogate pair for a byte of a variable that is not UTF-8: no server takes it."""
    told = [(2, "template: the value is not UTF-8")]
    assert complaints('\na = "{{ env("X") }}"', {"X": "secret\udcff"}) == told
    assert complaints('\na = {{ env("X") }}', {"X": "\ud800"}) == told


@pytest.mark.parametrize(
    "spelling",
    [
        r"{{ env \"X\" }}",
        '{{ env "X" }}',
        '{{env "X"}}',
        "{{ env 'X' }}",
        '{{ env("X") }}',
        r"{{ env(\"X\") }}",
        '{{ env("X", "default") }}',
        r"{{ env(\"X\", \"default\") }}",
        '{{\n  env("X")\n}}',
    ],
)
def test_each_spelling_of_env_gives_the_value(spelling: str) -> None:
    assert read(f'a = "{spelling}"', {"X": "value"}) == {"a": "value"}


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example('"')
@example("\\")
@example('\\" }\n x = "')
@example("${file}%{ if x }$${a}%%{b}")
@example("{{ env('Y') }}{% raw %}")
@example("dstream_value_0_\n")
def test_any_value_arrives_as_it_is_wherever_it_stands(value: str) -> None:
    environ = {"X": value}
    assert read('a = "{{ env("X") }}"', environ) == {"a": value}
    assert read(r'a = "<\\{{ env \"X\" }}\n{{ env \"X\" }}>"', environ) == {"a": f"<\\{value}\n{value}>"}
    assert read('a = "${{ env("X") }}"', environ) == {"a": "$" + value}
    assert read('a = <<E\n{{ env("X") }}\nE\n', environ) == {"a": value}
    (item,) = read('a = ["{{ env("X") }}"]', environ)["a"]
    assert item.data == value


@given(st.text(min_size=1))
def test_a_value_never_moves_a_line(value: str) -> None:
    source = (
        '# {{ env("X") }}\na = "{{\n env("X")\n }}"\n{# two\nlines #}\n\nb = "{{ env("X") }}" # {{ env("X") }}\nc = 1\n'
    )
    root, _ = parse(render(source, path="f.hcl", environ={"X": value}), path="f.hcl")
    assert [(key, line) for key, line, _ in root.entries] == [("a", 2), ("b", 8), ("c", 9)]


def test_jinjas_trimming_and_comments_leave_lines_where_they_are() -> None:
    source = 'a = 1\n\n{{- "" -}}\n\n{#-\nx\n-#}\n\nb = 2\n'
    source = source.replace('{{- "" -}}', '# {{- "" -}}')
    root, _ = parse(render(source, path="f.hcl", environ={}), path="f.hcl")
    assert [(key, line) for key, line, _ in root.entries] == [("a", 1), ("b", 9)]


def test_a_file_with_windows_line_ends_reads_the_same() -> None:
    assert read('a = "{{ env("X") }}"\r\nb = 2\r\n', {"X": "1\r\n2"}) == {"a": "1\r\n2", "b": 2}


def test_a_default_may_hold_what_closes_an_expression() -> None:
    assert read('a = "{{ env("X", "}}") }}"') == {"a": "}}"}


def test_text_that_looks_like_a_marker_is_left_alone() -> None:
    assert read('a = "dstream_value_0_{{ env("X") }}"', {"X": "v"}) == {"a": "dstream_value_0_v"}


def test_plain_expressions_work_on_values() -> None:
    assert read('a = "{{ env("X") ~ ":1433" }}"\nb = "{{ env("X") | upper }}"', {"X": "db"}) == {
        "a": "db:1433",
        "b": "DB",
    }


@pytest.mark.parametrize(("value", "data"), [("8", 8), ("1.5", 1.5), ("true", True), ("5s", "5s"), ("-3", -3)])
def test_a_value_without_quotes_is_a_number_or_truth_value_where_it_reads_as_one(value: str, data: Any) -> None:
    assert read('a = {{ env("X") }}', {"X": value}) == {"a": data}


def test_an_unset_variable_is_carried_with_its_line_and_does_not_end_the_reading() -> None:
    read_ = read('\na = "prefix {{ env "X" }}"\nb = 1\nc = {{ env "X" }}')
    assert read_ == {"a": Unset("X", "f.hcl", 2), "b": 1, "c": Unset("X", "f.hcl", 4)}


def test_an_empty_variable_is_set_and_a_commented_one_is_not_wanted() -> None:
    assert read('a = "{{ env("X", "default") }}"\n# b = "{{ env "Y" }}"', {"X": ""}) == {"a": ""}


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ('\na = "{{ secret }}"', 2, "unknown name secret"),
        ('\na = "{{\n\nenv("X" 1) }}"', 4, "template:"),
        ('a = "{{ env.__globals__ }}"', 1, "template: the expression gives"),
        ('a = "{{ env("X").__class__.mro() }}"', 1, "SecurityError"),
        ('a = "{{ 1 / 0 }}"', 1, "ZeroDivisionError"),
        ('a = "{{ [1] }}"', 1, "gives list"),
        ('\n{% if env("X") %}\na = 1\n{% endif %}', 2, "statements"),
        ("\n{% raw %}{% endraw %}", 2, "statements"),
        ('{{ env("X") }} = 1', 1, "cannot name"),
        ('a = { "{{ env("X") }}" = 1 }', 1, "cannot name"),
    ],
)
def test_what_is_refused_names_its_line(source: str, line: int, words: str) -> None:
    (first, *_) = complaints(source, {"X": "v"})
    assert first[0] == line
    assert words in first[1]


def test_all_faulty_expressions_are_told_at_once() -> None:
    assert [line for line, _ in complaints('a = "{{ x }}"\nb = "{{ y }}"\nc = "{{ 1/0 }}"')] == [1, 2, 3]


def test_an_expression_that_does_not_close_ends_the_reading_with_its_line() -> None:
    for source in ('a = 1\nb = "{{ env( }}"\n', 'a = 1\nb = "{{ env("X")'):
        with pytest.raises(ConfigurationError) as raised:
            read(source)
        assert raised.value.problems[0].startswith("f.hcl:2: template: ")


def test_no_complaint_about_an_expression_shows_a_value() -> None:
    for expression in (
        '{}[env("X")]',
        'env("X") + 1',
        '[1][env("X")]',
        'env("X").foo.bar',
        'env("X")()',
        'env(env("X"), 1).x',
    ):
        told = str(complaints(f'a = "{{{{ {expression} }}}}"', {"X": "hunter2"}))
        assert "hunter2" not in told


def test_the_file_itself_may_be_missing_or_no_text(tmp_path: Path) -> None:
    from common.config.bind import read as read_file

    with pytest.raises(ConfigurationError, match=r"nope\.hcl: reading the configuration"):
        read_file(tmp_path / "nope.hcl", {})
    (tmp_path / "bytes.hcl").write_bytes(b'a = 1\nb = "\xff"\n')
    with pytest.raises(ConfigurationError, match=r"bytes\.hcl:2: is not UTF-8"):
        read_file(tmp_path / "bytes.hcl", {})
    (tmp_path / "bom.hcl").write_bytes(b"\xef\xbb\xbfa = 1\n")
    assert read_file(tmp_path / "bom.hcl", {}).root.entries[0][0] == "a"


@pytest.mark.parametrize(
    "source",
    [
        'a = 1\nb = "{{ env "NOPE }}"\nc = ["x"]\n\nd {\n}\n',
        'a = 1\nb = "{{ env(\n"\nc = 2\nd {\n}\n',
    ],
)
def test_a_malformed_expression_is_reported_at_the_line_where_it_begins(source: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        render(source, path="f.hcl", environ={})
    (problem,) = raised.value.problems
    assert problem.startswith("f.hcl:2: template: ")
