"""The column of a mistake inside a text: quoted with escapes, as a heredoc, and not where a value from the environment is near."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import AfterValidator

from common.config.bind import bind, read
from common.config.settings import Settings
from common.config.values import WrongText, complain


def _without_marks(text: str) -> str:
    if "?" in text:
        raise WrongText("has a mark", text.index("?"))
    if not text:
        raise WrongText("is empty", 0)
    if text == "whole":
        raise WrongText("is wrong as a whole")
    return text


class Rules(Settings):
    rule: Annotated[str, AfterValidator(_without_marks)]
    rules: tuple[Annotated[str, AfterValidator(_without_marks)], ...] = ()


def told(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    path = folder / "d.hcl"
    path.write_text(text, encoding="utf-8")
    document = read(path, environ or {})
    block = document.block("rules")
    assert block is not None
    return [
        line.removeprefix(str(path))
        for line in complain(str(path), bind(block, Rules, unset="refuse").problems).problems
    ]


@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ('rule = "a ? b"', "2:13"),
        ('rule = "?"', "2:11"),
        (r'rule = "data.Status == \"paid\" ?"', "2:35"),
        (r'rule = "\u010d \U0001F40E \n ?"', "2:32"),
        ('rule = "čž🐎 ?"', "2:15"),
        ('rule = "$${a} %%{b} ?"', "2:23"),
        ('rule = ""', "2:11"),
        ('rule = "whole"', "2:11"),
        ('rule = "a\\n\\tb ?"', "2:18"),
        ("rule = <<EOT\nfirst\n  a ? b\nEOT", "4:5"),
        ("rule = <<EOT\n? first\nEOT", "3:1"),
        ('rule = "{{ env("X") }} ?"', "2"),
        ('rule = "a ?{{ env("X") }}"', "2"),
    ],
)
def test_the_place_of_a_mistake_in_a_text(tmp_path: Path, setting: str, place: str) -> None:
    (line,) = told(tmp_path, f"rules {{\n  {setting}\n}}\n", {"X": "one"})
    assert line.startswith(f":{place}: rules.rule ")


def test_an_indented_heredoc_has_the_line_at_least(tmp_path: Path) -> None:
    (line,) = told(tmp_path, "rules {\n  rule = <<-EOT\n    first\n      a ? b\n    EOT\n}\n")
    assert line.startswith(":4:")
    assert line in (":4:9: rules.rule has a mark", ":4: rules.rule has a mark")


def test_elements_of_a_list_have_their_line(tmp_path: Path) -> None:
    (line,) = told(tmp_path, 'rules {\n  rule = "a"\n  rules = [\n    "b",\n    "c ?",\n  ]\n}\n')
    assert line == ":5: rules.rules has a mark"


def test_mistakes_on_one_line_are_told_in_their_order(tmp_path: Path) -> None:
    lines = told(tmp_path, 'rules {\n  rule = "a ?"\n  other = 1\n}\n')
    assert [line.split(": ")[0] for line in lines] == [":2:13", ":3"]


def test_what_stands_beside_a_value_of_the_environment_is_not_quoted(tmp_path: Path) -> None:
    def quoting(text: str) -> str:
        raise WrongText(f"has {text}", 4, unquoted="is wrong")

    class Quoting(Settings):
        rule: Annotated[str, AfterValidator(quoting)]

    for source in ('rule = "mine"', 'rule = "{{ env("X") }} mine"', "rule = <<E\nmine {{ env('X') }}\nE"):
        path = tmp_path / "d.hcl"
        path.write_text(f"rules {{\n  {source}\n}}\n", encoding="utf-8")
        block = read(path, {"X": "SECRET"}).block("rules")
        assert block is not None
        [problem] = bind(block, Quoting, unset="refuse").problems
        unquoted = "rules.rule is wrong (where is not shown: the text holds a value of the environment)"
        assert problem.text == (unquoted if "env" in source else "rules.rule has mine")
