"""`dstream check` and `dstream doctor` of moves: a login whose `dstream offsets set` would be refused is reported before it is needed."""

from __future__ import annotations

import pytest

from ingester.sqlserver.sql import operating as queries
from tests.contracts.check.conftest import Place
from tests.contracts.check.test_doctor import corrected
from tests.contracts.check.test_source import reader

READS = ("SELECT ON SCHEMA::cdc", "SELECT ON SCHEMA::dbo")
MAKES = ("CREATE TABLE", "ALTER ON SCHEMA::dbo")


def test_nothing_is_said_where_the_first_move_makes_the_table(place: Place) -> None:
    report = place.check("--stage", "ingester")
    assert not [line for line in report.lines if " moves:" in line]
    place.execute(queries.CREATE_MOVES)
    assert place.check("--stage", "ingester").said("ok", "moves") == "dbo.cdc_offset_moves may be read and written"


def test_a_table_that_the_login_may_not_write_to_is_a_warning_with_its_grant(place: Place) -> None:
    place.execute(queries.CREATE_MOVES)
    reader(place, *READS, *MAKES)
    said = place.check("--stage", "ingester").said("warn", "moves")
    assert said == (
        "this login lacks INSERT on dbo.cdc_offset_moves: it cannot move an offset, as after lost changes: "
        "GRANT SELECT, INSERT ON OBJECT::dbo.cdc_offset_moves to the login's user"
    )
    corrected(place, "moves", "")
    assert place.check("--stage", "ingester").said("ok", "moves") == "dbo.cdc_offset_moves may be read and written"


@pytest.mark.parametrize("grants", [(), MAKES])
def test_a_table_that_the_login_could_not_use_once_it_is_there_is_told(place: Place, grants: tuple[str, ...]) -> None:
    reader(place, *READS, *grants)
    said = place.check("--stage", "ingester").said("ok", "moves")
    assert "dbo.cdc_offset_moves does not exist, and this login may not create and use it" in said
    assert "GRANT SELECT, INSERT ON OBJECT::dbo.cdc_offset_moves" in said


@pytest.mark.parametrize("exists", [False, True])
def test_a_table_that_may_be_hidden_is_not_said_to_be_missing(place: Place, exists: bool) -> None:
    if exists:
        place.execute(queries.CREATE_MOVES)
    reader(place, "SELECT ON SCHEMA::cdc", "SELECT ON OBJECT::dbo.Persons")
    said = place.check("--stage", "ingester").said("ok", "moves")
    assert said.startswith("dbo.cdc_offset_moves does not exist, or this login may not see it")
