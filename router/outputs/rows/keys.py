"""The setting `keys`: which columns identify a row of which table. Messages do not say it, and a copy by another key would mix rows up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator

from common.names import TableName


def _keys(given: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    seen: dict[str, str] = {}
    for name, columns in given.items():
        try:
            folded = _folded(TableName.parse(name))
        except ValueError as error:
            raise ValueError(f"{name!r}: {error}") from error
        if folded in seen:
            raise ValueError(f"names the table {name!r} twice: {seen[folded]!r} is the same one")
        if not columns or len(set(columns)) != len(columns) or not all(columns):
            raise ValueError(f'{name!r}: must be a list of different column names, such as ["ID"]')
        seen[folded] = name
    return given


TableKeys = Annotated[Mapping[str, Sequence[str]], AfterValidator(_keys)]
"""`{ Persons = ["ID"], "sales.Order Lines" = ["OrderId", "Line"] }`: tables as `tables` spells them, columns as the server does."""


class NoSuchColumn(LookupError):
    """A column of the configured key is not in the table's messages."""

    def __init__(self, column: str, present: Sequence[str]) -> None:
        super().__init__(f"there is no column {column} in its messages: they have {', '.join(present) or 'none'}")
        self.column = column


class Keys:
    """Answers by table, whatever its letters' case: two tables whose names differ in case alone cannot be configured."""

    def __init__(self, given: Mapping[str, Sequence[str]]) -> None:
        self._columns = {_folded(TableName.parse(name)): tuple(columns) for name, columns in given.items()}

    def of(self, table: TableName) -> tuple[str, ...] | None:
        """The columns of its key; None where the setting does not name the table."""
        return self._columns.get(_folded(table))


def _folded(table: TableName) -> str:
    return table.key.lower()
