"""`dstream check` and `dstream doctor` of dbo.cdc_schemas: said only where versions are kept."""

from __future__ import annotations

import pytest

from tests.contracts.check.conftest import Place, Report
from tests.contracts.check.test_doctor import corrected
from tests.contracts.check.test_source import reader

KEPT = "shape { schema_events = true }"


def checked(place: Place, more: str = KEPT) -> Report:
    place.settings["more"] = more
    return place.check("--stage", "ingester")


def test_without_schema_events_nothing_is_said(place: Place) -> None:
    assert not [line for line in checked(place, "").lines if "schemas" in line]


@pytest.mark.parametrize(
    "more", [KEPT, 'tables_overrides {\noverrides {\ntable_name = "dbo.Persons"\nschema_events = true\n}\n}']
)
def test_a_table_of_schemas_that_the_start_creates(place: Place, more: str) -> None:
    assert checked(place, more).said("ok", "schemas").endswith("created at the first start")


def test_a_table_of_schemas_that_cannot_be_made_and_what_corrects_it(place: Place) -> None:
    reader(place, "SELECT ON SCHEMA::cdc", "SELECT ON SCHEMA::dbo", "CREATE TABLE", "ALTER ON SCHEMA::dbo")
    assert "may not create and use it" in checked(place).said("fail", "schemas")
    corrected(place, "schemas", "may not create and use it")
    assert checked(place).said("ok", "schemas") == "dbo.cdc_schemas may be read and written"
