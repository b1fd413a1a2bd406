"""Every value of docs/values.md, which is made of what a server was read, is as the schema of its type says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ingester.sqlserver.schema.json_types import json_schema
from ingester.sqlserver.values import PROJECTIONS

PAGE = (Path(__file__).parents[5] / "docs" / "values.md").read_text(encoding="utf-8")
TEXTS, NUMBERS = PAGE.split('## With `decimals = "number"`')


def rows(text: str) -> list[tuple[str, Any]]:
    """(type, value) of each row of the tables."""
    found = [
        re.fullmatch(r"\| `([\w(),]+)[^`]*` \| `.*` \| `(.*)` \|", line)
        for line in text.partition("## NULL")[0].splitlines()
    ]
    return [(row[1], json.loads(row[2])) for row in found if row]


def is_valid(declared: str, value: Any, *, numbers: bool = False) -> bool:
    schema = json_schema(declared, decimals_as_numbers=numbers)
    Draft202012Validator.check_schema(schema)
    return bool(Draft202012Validator(schema).is_valid(value))


def test_every_value_of_the_page_is_valid_and_null_too() -> None:
    found = rows(TEXTS)
    assert len(found) > 60
    assert [each for each in found if not is_valid(*each) or not is_valid(each[0], None)] == []


def test_with_decimals_as_numbers_they_are_numbers_and_no_strings() -> None:
    found = rows(NUMBERS)
    assert len(found) >= 10
    assert [each for each in found if not is_valid(*each, numbers=True)] == []
    assert [each for each in found if is_valid(each[0], str(each[1]), numbers=True)] == []
    assert [each for each in found if is_valid(*each)] == []


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("bit", 1),
        ("tinyint", 256),
        ("smallint", 32768),
        ("int", 2**31),
        ("bigint", -(2**63) - 1),
        ("int", 1.5),
        ("decimal(9,4)", "1.2"),
        ("decimal(9,0)", "1.0"),
        ("money", "1.20"),
        ("float", "1"),
        ("varchar(5)", "longer"),
        ("nvarchar(max)", 1),
        ("date", "2026-1-2"),
        ("time(3)", "10:23:45"),
        ("datetime", "2018-07-13T13:23:45"),
        ("datetime2(0)", "2018-07-13T13:23:45.1"),
        ("datetimeoffset(0)", "2018-07-13T12:23:45"),
        ("uniqueidentifier", "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        ("varbinary(max)", 1),
    ],
)
def test_another_value_is_refused(declared: str, value: object) -> None:
    assert not is_valid(declared, value)


def test_every_type_that_is_read_has_a_schema_and_an_unknown_one_takes_anything() -> None:
    assert [name for name in PROJECTIONS if "type" not in json_schema(name, decimals_as_numbers=False)] == []
    assert is_valid("sql_variant", {"any": 1})


def test_what_the_mask_redact_leaves_fits_the_shortest_text() -> None:
    assert is_valid("char(1)", "***")
