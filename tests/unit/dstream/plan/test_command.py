"""`dstream plan` as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dstream.cli import app

EXAMPLE = str(Path(__file__).parents[4] / "dstream.hcl")
BEGINS = {
    "--bicep": "//",
    "--terraform": "#",
    "--sql": "--",
    "--keda": "#",
    "--outputs": "# output default: azure_service_bus",
}


@pytest.mark.parametrize(("language", "begin"), BEGINS.items())
def test_the_example_is_planned_in_each_language(language: str, begin: str, tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["plan", language, "--config", EXAMPLE])
    assert printed.exit_code == 0
    assert printed.stdout.startswith(begin)
    file = tmp_path / "plan"
    written = CliRunner().invoke(app, ["plan", language, "--config", EXAMPLE, "--output", str(file)])
    assert (written.exit_code, written.stdout) == (0, "")
    assert file.read_text() == printed.stdout


@pytest.mark.parametrize("chosen", [[], ["--bicep", "--sql"]])
def test_exactly_one_language_is_chosen(chosen: list[str]) -> None:
    result = CliRunner().invoke(app, ["plan", *chosen, "--config", EXAMPLE])
    assert result.exit_code == 2
    assert "choose one of" in result.stderr


def test_a_file_that_cannot_be_written_is_an_error_without_a_traceback(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["plan", "--sql", "--config", EXAMPLE, "--output", str(tmp_path / "no" / "plan.sql")]
    )
    assert result.exit_code == 1
    assert "No such file or directory" in result.stderr
