"""Commands whose changes the database records: two lines in the audit log, and a warning where there can be none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from common.errors import ConfigurationError, TransientError
from desk.audit import local_user
from dstream.audited import audited
from dstream.cli import app


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kept" / "audit.jsonl"
    monkeypatch.setenv("DSTREAM_AUDIT_FILE", str(path))
    return path


def _lines(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in place.read_text().splitlines()]


def test_a_change_has_a_line_before_and_one_after_it(place: Path) -> None:
    with audited("offset.move", "dbo.Persons", "a restore", order={"lsn": "0x1"}) as said:
        [begun] = _lines(place)
        said.details = {"to": "after LSN 0x1"}
    done = _lines(place)[1]
    assert (begun["outcome"], begun["action"], begun["target"]) == ("begun", "offset.move", "dbo.Persons")
    assert (begun["who"], begun["through"], begun["reason"]) == (local_user(), "command", "a restore")
    assert begun["details"] == {"order": {"lsn": "0x1"}}
    assert (done["outcome"], done["details"], done["request"]) == ("done", {"to": "after LSN 0x1"}, begun["request"])


def test_what_was_refused_or_failed_is_written_down_as_that(place: Path) -> None:
    with audited("table.pause", "a") as said:
        said.refused("it is paused already")
    with pytest.raises(ConfigurationError), audited("table.pause", "b"):
        raise ConfigurationError(["no such table"])
    with pytest.raises(TransientError), audited("table.pause", "c"):
        raise TransientError("no answer")
    with pytest.raises(ValueError, match="secret"), audited("table.pause", "d"):
        raise ValueError("secret")
    ends = [(each["outcome"], each["details"]["why"]) for each in _lines(place)[1::2]]
    assert ends == [
        ("refused", "it is paused already"),
        ("refused", "no such table"),
        ("failed", "no answer"),
        ("failed", "ValueError"),
    ]


class _Away:
    """Modules of a server that does not answer."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def asked(*arguments: object, **named: object) -> Any:
            if name in ("Target", "Confirmed", "SnapshotState"):
                return None
            raise TransientError("no answer")

        return asked


@pytest.mark.parametrize(
    "command",
    [
        ["pause", "dbo.Persons"],
        ["resume", "dbo.Persons"],
        ["offsets", "set", "dbo.Persons", "--latest"],
        ["snapshot", "start", "dbo.Persons"],
        ["snapshot", "pause", "dbo.Persons"],
        ["snapshot", "resume", "dbo.Persons"],
        ["snapshot", "stop", "dbo.Persons"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_command_may_name_another_file(
    command: list[str], place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"dstream.commands.{command[0]}"
    monkeypatch.setattr(f"{module}.of_tables", lambda *given: None)
    monkeypatch.setattr(f"{module}.imported", lambda name: _Away())
    CliRunner().invoke(app, [*command, "--audit-file", str(tmp_path / "named.jsonl")])
    lines = _lines(tmp_path / "named.jsonl")
    assert [(line["outcome"], line["target"]) for line in lines] == [
        ("begun", "dbo.Persons"),
        ("failed", "dbo.Persons"),
    ]
    assert not place.exists()


def test_the_named_file_is_written_instead(place: Path, tmp_path: Path) -> None:
    with audited("table.pause", "dbo.Persons", audit_file=tmp_path / "named.jsonl"):
        pass
    assert [line["outcome"] for line in _lines(tmp_path / "named.jsonl")] == ["begun", "done"]
    assert not place.exists()


def test_a_dry_run_has_no_line(place: Path) -> None:
    with audited("offset.move", "dbo.Persons", dry_run=True):
        pass
    assert not place.exists()


def test_a_log_that_cannot_be_written_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DSTREAM_AUDIT_FILE", str(tmp_path / "file" / "audit.jsonl"))
    done = False
    with audited("table.pause", "dbo.Persons"):
        done = True
    assert done
    err = capsys.readouterr().err
    assert err.count("warning: writing the audit log") == 1
    assert "the database has the only record of this change" in err
