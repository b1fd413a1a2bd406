"""The setting `keys` says what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from router.outputs.rows.keys import TableKeys

_ADAPTER: TypeAdapter[Any] = TypeAdapter(TableKeys)


def test_tables_and_their_columns_are_taken_as_they_are() -> None:
    given = {"Persons": ["ID"], "sales.Order Lines": ["OrderId", "Line"]}
    assert _ADAPTER.validate_python(given) == given


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"a.b.c": ["ID"]}, "more than two parts"),
        ({"Persons": ["ID"], "dbo.persons": ["ID"]}, "names the table 'dbo.persons' twice: 'Persons' is the same one"),
        ({"Persons": "ID"}, "not allowed as a Sequence"),
        ({"Persons": []}, "must be a list of different column names"),
        ({"Persons": ["ID", "ID"]}, "must be a list of different column names"),
        ({"Persons": [""]}, "must be a list of different column names"),
    ],
)
def test_what_is_wrong_is_said(given: Any, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        _ADAPTER.validate_python(given)
