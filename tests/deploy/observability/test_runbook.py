"""The runbook has a section for each alert, with the three parts, and quotes only log lines, metrics and commands that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.deploy.observability.queries import series
from tests.deploy.observability.test_rules import RULES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
PARTS = ["Meaning.", "Look at.", "Do."]
COMMANDS = {"check", "doctor", "resume", "snapshot", "status"}
FOREIGN = ("kubectl ", "curl ", "az ", "systemctl ", "kill ", "chronyc ", "health {", "dstream ")
"""Quoted words with a space that are no log line: commands and configuration. Settings have a `=`."""

SECTIONS = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_each_alert_has_its_section_and_no_other_is_there() -> None:
    assert list(SECTIONS) == [rule["alert"] for rule in RULES], "in the order of the rules"


@pytest.mark.parametrize("alert", SECTIONS)
def test_a_section_has_three_parts(alert: str) -> None:
    assert re.findall(r"^\*\*(.+?)\*\*", SECTIONS[alert], re.MULTILINE) == PARTS


@cache
def logged() -> str:
    """All texts in the code, one a line."""
    found = []
    for folder in ("common", "router", "ingester"):
        for path in (ROOT / folder).rglob("*.py"):
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            found += [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return "\n".join(found)


def quoted(page: str) -> list[str]:
    return [
        " ".join(each.split()) for each in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))
    ]


def unknown(page: str) -> list[str]:
    """What `page` quotes and nobody logs, measures or can run."""
    missing = []
    for each in quoted(page):
        if each.startswith("dstream_"):
            known = re.split(r"[{ ]", each)[0] in series()
        elif each.startswith("dstream "):
            known = each.split()[1] in COMMANDS
        else:
            known = " " not in each or "=" in each or each.startswith(FOREIGN) or each in logged()
        missing += [] if known else [each]
    return missing


def test_what_is_quoted_exists() -> None:
    assert unknown(PAGE) == []


def test_a_quotation_of_what_does_not_exist_is_found() -> None:
    page = "`table stoped` `dstream_ingester_lags` `dstream statis` `table found` `dstream_ingester_ready` `dstream check -c x`"
    assert unknown(page) == ["table stoped", "dstream_ingester_lags", "dstream statis"]
