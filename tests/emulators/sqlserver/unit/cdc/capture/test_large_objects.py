"""The limit on large values. Source: the page of the server option "max text repl size" (D)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from tests.emulators.sqlserver.unit.cdc.conftest import INT, Lab

LARGE: dict[str, tuple[SqlType, Value, Value, int]] = {
    "nvarchar(max)": (SqlType("nvarchar", MAX), "x" * 32_768, "x" * 32_769, 65_538),
    "varchar(max)": (SqlType("varchar", MAX), "x" * 65_536, "x" * 65_537, 65_537),
    "varbinary(max)": (SqlType("varbinary", MAX), b"x" * 65_536, b"x" * 65_537, 65_537),
    "text": (SqlType("text"), "x" * 65_536, "x" * 65_537, 65_537),
    "ntext": (SqlType("ntext"), "\U0001f600" * 16_384, "\U0001f600" * 16_385, 65_540),
    "image": (SqlType("image"), b"x" * 65_536, b"x" * 65_537, 65_537),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_value_of_more_than_64_kb_is_7139(lab: Lab, name: str) -> None:
    """D: bytes, not characters."""
    kind, fits, too_long, size = LARGE[name]
    lab.database.define("Docs", {"ID": INT, "Doc": kind}, key=["ID"])
    lab.enable("Docs")
    insert(lab, fits)
    with pytest.raises(SqlError, match=rf"\({size}\) to be replicated exceeds configured maximum 65536\.") as refused:
        insert(lab, too_long)
    assert refused.value.number == 7139
    lab.scan()
    assert len(lab.changes("dbo_Docs")) == 1


def insert(lab: Lab, doc: Value, number: int = 1) -> None:
    with lab.database.transaction() as t:
        t.insert("Docs", {"ID": number, "Doc": doc})


@pytest.fixture
def docs(lab: Lab) -> Lab:
    lab.database.define("Docs", {"ID": INT, "Doc": SqlType("nvarchar", MAX)}, key=["ID"])
    return lab


def test_what_is_not_captured_may_be_of_any_length(docs: Lab) -> None:
    """D: the option is about replicated and captured columns."""
    docs.enable("Docs", captured_column_list="ID")
    insert(docs, "x" * 100_000)


def test_a_long_value_that_stays_as_it_is_is_no_error(docs: Lab) -> None:
    insert(docs, "x" * 100_000)
    docs.enable("Docs")
    with docs.database.transaction() as t:
        t.update("Docs", lambda row: True, lambda row: {"ID": 2})
        t.delete("Docs", lambda row: True)


def test_the_limit_can_be_set_and_lifted(docs: Lab) -> None:
    """D: -1 for no limit."""
    docs.enable("Docs")
    state = docs.extension.find(docs.database)
    assert state is not None
    state.options = replace(state.options, max_text_repl_size=10)
    with pytest.raises(SqlError, match="maximum 10"):
        insert(docs, "x" * 6)
    state.options = replace(state.options, max_text_repl_size=-1)
    insert(docs, "x" * 1_000_000)
