"""Completion by TAB: what a shell is told, and how little is loaded for it."""

from __future__ import annotations

import subprocess
import sys
from functools import wraps
from pathlib import Path
from typing import Annotated, cast

import click
import pytest
import typer
from typer.testing import CliRunner

from dstream.cli import app, named
from dstream.completing import VARIABLE, prepare, tables

ROOT = Path(__file__).parents[3]
_CODE = """
import sys
from dstream.cli import main
try: main()
except SystemExit: pass
heavy = {'pyspark', 'pymssql', 'azure', 'ingester', 'router', 'emulators', 'structlog', 'prometheus_client'} & set(sys.modules)
sys.exit(str(heavy) if heavy else 0)
"""


def completed(words: str, *, shell: str = "bash") -> list[str]:
    """What the shell is told for the last of `words`; nothing that takes time was loaded for it."""
    variables = {VARIABLE: f"complete_{shell}", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", _CODE], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_every_command_is_completed() -> None:
    assert set(completed("dstream ")) == {
        str(command.name or named(cast("click.Command", command.callback))) for command in app.registered_commands
    } | {str(group.name) for group in app.registered_groups}
    assert set(completed("dstream offsets ")) == {"show", "set", "moves"}
    assert set(completed("dstream snapshot ")) == {"start", "list", "pause", "resume", "stop"}


def test_options_are_completed() -> None:
    assert completed("dstream plan --ke") == ["--keda"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_asks_the_program(shell: str) -> None:
    result = CliRunner().invoke(app, ["completion", shell])
    assert result.exit_code == 0
    assert f"{VARIABLE}=complete_{shell}" in result.stdout


def test_another_shell_is_named_as_what_it_is() -> None:
    result = CliRunner().invoke(app, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "fish" in result.stderr


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "dstream.hcl"
    file.write_text('ingester { tables = ["Persons", "sales.Order Details", "{{ env("NOT_SET") }}", "a.b.c", 1] }')
    return file


class _Context:
    def __init__(self, **given: object) -> None:
        self.params = given


def offered(incomplete: str, **given: object) -> list[str]:
    return tables(cast("typer.Context", _Context(**given)), incomplete)


def test_tables_come_from_the_configuration_as_far_as_it_can_be_read(config: Path) -> None:
    assert offered("", config=config) == ["dbo.Persons", "sales.Order Details"]
    assert offered("DBO", config=config) == ["dbo.Persons"]


def test_a_configuration_that_cannot_be_read_completes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert offered("", config=tmp_path / "none.hcl") == []
    broken = tmp_path / "broken.hcl"
    broken.write_text("ingester {")
    monkeypatch.setenv("DSTREAM_CONFIG", str(broken))
    assert offered("") == []


def look(table: Annotated[str, typer.Argument(metavar="TABLE")], other: str = "") -> None:
    """A command as those of DStream: wrapped, and with annotations that are text."""


@pytest.mark.parametrize("words", ["dstream look sa", "dstream inner show dbo.Persons sa"])
def test_a_parameter_that_is_a_table_gets_them_wherever_its_command_is(words: str, config: Path) -> None:
    def show(tables: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]...")] = None) -> None: ...

    outer, inner = typer.Typer(), typer.Typer()
    outer.command()(wraps(look)(lambda *given: None))
    inner.command()(show)
    inner.command("other")(look)
    outer.add_typer(inner, name="inner")
    prepare(outer)
    asked = {VARIABLE: "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    result = CliRunner().invoke(outer, [], prog_name="dstream", env={**asked, "DSTREAM_CONFIG": str(config)})
    assert result.stdout == "sales.Order Details\n"
