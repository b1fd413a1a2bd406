"""The pages of guarantees and findings name tests that exist, and each guarantee names one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
FINDINGS = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[^`]*)`", PAGE + FINDINGS)))


@pytest.mark.parametrize("named", NAMED)
def test_a_test_that_a_page_names_is_there(named: str) -> None:
    path, _, function = named.partition("::")
    assert (ROOT / path).exists()
    if function:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert function in {
            found.name for found in ast.walk(tree) if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef)
        }


def test_the_page_names_a_test_for_each_of_what_holds() -> None:
    holds = PAGE.partition("## What holds")[2].partition("\n## ")[0]
    promises = [text for text in holds.split("\n\n") if text.strip().startswith("**")]
    assert len(promises) == 6
    assert [text for text in promises if "Tested by `tests/" not in " ".join(text.split())] == []
