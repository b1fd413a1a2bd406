"""`dstream check` and `dstream doctor` of pauses: an ingester that does not notice them is reported."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import pytest
from pydantic import SecretStr

from common.sqladdress import SqlAddress
from ingester.operating.pauses import Pause, PausesHidden
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.operating.pauses import SqlServerPauses
from ingester.sqlserver.sql import pauses as queries
from tests.contracts.check.conftest import Place
from tests.contracts.check.test_doctor import corrected
from tests.contracts.check.test_source import reader


def _paused(place: Place) -> Mapping[str, Pause] | None:
    login, user = place.login, str(place.settings["user"])
    address = SqlAddress(login.host, login.port, None, login.database, user, SecretStr(login.password))
    with closing(SqlServerPauses(Connection(address))) as pauses:
        return pauses.paused()


def test_nothing_is_said_where_nobody_has_paused_a_table(place: Place) -> None:
    report = place.check("--stage", "ingester")
    assert not [line for line in report.lines if " pauses:" in line]
    assert _paused(place) is None
    place.execute(queries.CREATE)
    assert _paused(place) == {}
    assert place.check("--stage", "ingester").said("ok", "pauses") == "dbo.cdc_pauses may be read and written"


def test_a_login_that_may_not_read_them_is_a_warning_with_its_grant(place: Place) -> None:
    place.execute(queries.CREATE)
    reader(place, "SELECT ON SCHEMA::cdc", "SELECT ON OBJECT::dbo.Persons", "VIEW DEFINITION ON SCHEMA::dbo")
    said = place.check("--stage", "ingester").said("warn", "pauses")
    assert "reads a paused table on" in said
    assert "GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_pauses" in said
    corrected(place, "pauses", "")
    assert place.check("--stage", "ingester").said("ok", "pauses") == "dbo.cdc_pauses may be read and written"


@pytest.mark.parametrize("exists", [False, True])
def test_pauses_that_may_be_hidden_are_not_said_to_be_missing(place: Place, exists: bool) -> None:
    if exists:
        place.execute(queries.CREATE)
    reader(place, "SELECT ON SCHEMA::cdc", "SELECT ON OBJECT::dbo.Persons")
    said = place.check("--stage", "ingester").said("ok", "pauses")
    assert said.startswith("dbo.cdc_pauses does not exist, or this login may not see it")
    assert "GRANT SELECT ON OBJECT::dbo.cdc_pauses" in said
    with pytest.raises(PausesHidden) as found:
        _paused(place)
    assert "GRANT SELECT ON OBJECT::dbo.cdc_pauses" in str(found.value.hint)


def test_a_login_that_sees_the_table_but_may_not_read_it_has_no_answer(place: Place) -> None:
    place.execute(queries.CREATE)
    reader(place, "SELECT ON SCHEMA::cdc", "SELECT ON OBJECT::dbo.Persons", "VIEW DEFINITION ON SCHEMA::dbo")
    with pytest.raises(PausesHidden):
        _paused(place)


def test_one_that_may_read_alone_notices_pauses(place: Place) -> None:
    place.execute(queries.CREATE)
    reader(place, "SELECT ON SCHEMA::cdc", "SELECT ON SCHEMA::dbo")
    assert "needs another one" in place.check("--stage", "ingester").said("ok", "pauses")
