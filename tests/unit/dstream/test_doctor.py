"""`dstream doctor` as it is printed, and that nothing can be found without a fix or a reason."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from common.check import NOT_KNOWN, Finding, by_hand, by_shell, by_sql, fail, ok, warn
from common.observability.logs import register_secret
from dstream.cli import app

ROOT = Path(__file__).parents[3]
SECRET = "do-not-show-this"
GRANT = by_sql("GRANT SELECT ON SCHEMA::cdc TO [dstream];", f"PRINT N'{SECRET}';")
FINDINGS = [
    ok("Java", "found"),
    fail("CDC", "may not read", "grant it", fix=GRANT),
    warn("table dbo.Persons", "may not read", fix=GRANT),
    fail("queue q", "it does not exist", fix=by_shell("group=$(az ...)", "az servicebus queue create")),
    warn("clock", "behind", "set it", fix=by_hand("it has its host's")),
]


@pytest.fixture(autouse=True)
def ingester(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("ingester.check")

    def findings(settings: object) -> Iterator[Finding]:
        register_secret(SECRET)
        yield from FINDINGS

    made.__dict__["findings"] = findings
    monkeypatch.setitem(sys.modules, "ingester.check", made)
    monkeypatch.setattr("dstream.commands.check.of_stages", lambda stage, config: (object(), None))


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["doctor", "--stage", "ingester", *arguments])
    return result.exit_code, result.stdout


def test_lines_have_the_commands_below_what_they_correct() -> None:
    assert run() == (
        1,
        """\
fail  CDC: may not read: grant it
      as an administrator, in the source database:
        GRANT SELECT ON SCHEMA::cdc TO [dstream];
        PRINT N'***';

warn  table dbo.Persons: may not read
      the same commands as above

fail  queue q: it does not exist
      in a shell, with the Azure CLI:
        group=$(az ...)
        az servicebus queue create

warn  clock: behind: set it
      no command: it has its host's

1 check is ok
""",
    )


def test_json_is_that_of_check_with_a_fix() -> None:
    status, output = run("--json")
    document = json.loads(output)
    assert (status, document["outcome"]) == (1, "fail")
    assert SECRET not in output
    first, second, *_, last = document["findings"]
    assert first == {
        "stage": "ingester",
        "outcome": "ok",
        "subject": "Java",
        "text": "found",
        "remedy": None,
        "fix": None,
    }
    assert second["fix"] == {
        "tool": "sql",
        "commands": ["GRANT SELECT ON SCHEMA::cdc TO [dstream];", "PRINT N'***';"],
        "because": None,
    }
    assert last["fix"] == {"tool": None, "commands": [], "because": "it has its host's"}


def test_check_shows_no_commands() -> None:
    result = CliRunner().invoke(app, ["check", "--stage", "ingester", "--json"])
    assert {key for each in json.loads(result.stdout)["findings"] for key in each} == {
        *("stage", "outcome", "subject", "text", "remedy")
    }


def test_a_finding_cannot_be_made_without_a_fix() -> None:
    """`warn` and `fail` demand one, and nothing goes round them."""
    for path in (
        path for package in ("common", "ingester", "router", "dstream") for path in (ROOT / package).rglob("*.py")
    ):
        if path == ROOT / "common" / "check.py":
            continue
        called = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert not [each for each in called if isinstance(each, ast.Name) and each.id == "Finding"], path
    for made in (warn, fail):
        with pytest.raises(TypeError, match="fix"):
            made("a", "b")  # type: ignore[call-arg]
    assert NOT_KNOWN.because
