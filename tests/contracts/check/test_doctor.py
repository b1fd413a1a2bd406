"""`dstream doctor`: what its T-SQL corrects is corrected, seen by running it as an administrator and looking again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from dstream.cli import app
from tests.contracts.check.conftest import PASSWORD, Place
from tests.contracts.check.test_source import offsets_table, reader

_ROUNDS = 4
"""One fault may hide another: without Change Data Capture no table is looked at."""


def examined(place: Place) -> list[dict[str, Any]]:
    command = ["doctor", "--json", "--stage", "ingester", "--config", str(place.written())]
    result = CliRunner().invoke(app, command)
    assert PASSWORD not in result.stdout
    findings: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
    for each in findings:
        assert (each["fix"] is None) == (each["outcome"] == "ok")
        if each["fix"] is not None:
            assert bool(each["fix"]["commands"]) != bool(each["fix"]["because"])
    return findings


def correctable(place: Place) -> list[dict[str, Any]]:
    return [each for each in examined(place) if each["fix"] is not None and each["fix"]["tool"] == "sql"]


def corrected(place: Place, subject: str, text: str) -> None:
    """The fault is there, and gone once the statements were run."""
    found = correctable(place)
    assert [each for each in found if each["subject"] == subject and text in each["text"]], found
    for _ in range(_ROUNDS):
        place.execute(*dict.fromkeys(statement for each in found for statement in each["fix"]["commands"]))
        if not (found := correctable(place)):
            return
    raise AssertionError(found)


TABLE = "table dbo.Persons"
READS = ("SELECT ON SCHEMA::cdc", "SELECT ON SCHEMA::dbo")
MAKES = ("CREATE TABLE", "ALTER ON SCHEMA::dbo")


def test_a_database_without_capture(place: Place) -> None:
    place.execute("EXEC sys.sp_cdc_disable_db")
    corrected(place, "CDC", "not enabled")


def test_a_table_without_capture(place: Place) -> None:
    place.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'all'")
    corrected(place, TABLE, "not under CDC")


def test_a_column_that_is_not_captured(place: Place) -> None:
    place.execute("ALTER TABLE dbo.Persons ADD Age INT NULL")
    corrected(place, TABLE, "captures 3 of 4 columns")


@pytest.mark.parametrize("mode", ["direct", "function"])
def test_a_login_without_rights(place: Place, mode: str) -> None:
    reader(place)
    place.settings["more"] = f'query_mode = "{mode}"'
    corrected(place, "offsets", "or this login may not see it")


def test_offsets_that_the_login_may_not_see(place: Place) -> None:
    offsets_table(place)
    reader(place, *READS[:1], "SELECT ON OBJECT::dbo.Persons")
    corrected(place, "offsets", "or this login may not see it")


def test_a_gating_role(place: Place) -> None:
    place.execute(
        "EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'all'",
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Persons', @role_name = N'the gate'",
    )
    reader(place, *READS, *MAKES)
    place.settings["more"] = 'query_mode = "function"'
    corrected(place, TABLE, "")


def test_offsets_that_cannot_be_written(place: Place) -> None:
    offsets_table(place)
    reader(place, *READS)
    corrected(place, "offsets", "lacks INSERT, UPDATE")


def test_offsets_of_an_older_installation(place: Place) -> None:
    place.execute(
        "CREATE TABLE dbo.cdc_offsets (table_name NVARCHAR(255) NOT NULL PRIMARY KEY, last_lsn VARBINARY(10))"
    )
    reader(place, *READS, "INSERT ON OBJECT::dbo.cdc_offsets", "UPDATE ON OBJECT::dbo.cdc_offsets")
    corrected(place, "offsets", "lacks the columns")


def test_changes_that_are_sent_elsewhere(place: Place) -> None:
    offsets_table(place)
    place.execute("INSERT INTO dbo.cdc_offsets (table_name, destination) VALUES ('dbo.Persons', N'ns/q (s/d)')")
    corrected(place, TABLE, "its changes are sent to ns/q")


def test_capture_without_a_job(place: Place) -> None:
    place.execute("EXEC sys.sp_cdc_drop_job N'capture'")
    corrected(place, "capture", "no capture job")


def test_a_short_retention(place: Place) -> None:
    place.execute("EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 60")
    corrected(place, "retention", "kept for 1h")


def test_jobs_that_may_not_be_seen(place: Place) -> None:
    offsets_table(place)
    reader(place, *READS, "INSERT ON SCHEMA::dbo", "UPDATE ON SCHEMA::dbo")
    corrected(place, "retention", "may not see")


def test_lost_changes_have_no_command_and_the_reason_is_said(place: Place) -> None:
    offsets_table(place)
    place.execute(
        "INSERT INTO dbo.cdc_offsets (table_name, last_lsn, last_seq, last_command_id, last_operation) "
        "VALUES ('dbo.Persons', 0x00000000000000000001, 0x00000000000000000001, 1, 2)"
    )
    (found,) = [each for each in examined(place) if each["subject"] == TABLE]
    assert (found["outcome"], found["fix"]["commands"]) == ("fail", [])
    assert "cannot be brought back" in found["fix"]["because"]


def test_no_grant_helps_a_login_that_sees_every_table(place: Place) -> None:
    place.settings["tables"] = '"Persons", "Nowhere"'
    (found,) = [each for each in examined(place) if each["subject"] == "table dbo.Nowhere"]
    assert found["fix"]["commands"] == []
    assert "correct the name" in found["fix"]["because"]
    reader(place, "SELECT ON SCHEMA::cdc")
    (found,) = [each for each in examined(place) if each["subject"] == "table dbo.Nowhere"]
    assert found["fix"]["commands"], "it may be hidden from this one"


def test_older_names_of_settings_are_warned_of(place: Place) -> None:
    place.make_queue()
    config = place.written()
    config.write_text(config.read_text().replace("\nrouter {", "\npublisher {\n    sessions = 4\n"))
    result = CliRunner().invoke(app, ["check", "--stage", "router", "--config", str(config)])
    assert "warn  publisher: line " in result.stdout
    assert "setting has a new name: write router" in result.stdout
    assert "warn  publisher.sessions: line " in result.stdout
