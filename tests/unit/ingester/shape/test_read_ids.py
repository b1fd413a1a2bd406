"""The ids of rows that a snapshot reads show nothing of a key that is not sent as it is."""

from __future__ import annotations

import hashlib

import pytest

from ingester.history.rows import BaseTable, Row, RowPage
from ingester.history.snapshot import Chunk
from ingester.shape.columns import ShapeRefused
from ingester.shape.mask import mask_of
from ingester.shape.read_ids import key_of_ids
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CapturedColumn
from ingester.sqlserver.position import LogPosition
from ingester.task.events import RowChanges
from tests.fakes.ingester import instance, lsn

COLUMNS = (CapturedColumn("Email", "nvarchar", 1, key_ordinal=1), CapturedColumn("Name", "nvarchar", 2))
HASHED = TableShape(masks=(("Email", mask_of("hash:SHA-256:sesame")),))


def ids(shape: TableShape, *emails: str) -> list[str]:
    chunk = Chunk("a1b2c3d4e5f6", BaseTable(instance(), ("Email",), 2), 1, rows=10)
    made = RowChanges(chunk, LogPosition.end_of(lsn(3)), key_of_ids(shape, COLUMNS, ("Email",)))
    page = RowPage([Row((f"Email={email}",), {}) for email in emails], full=False)
    return [change.position.place()[0].removeprefix("a1b2c3d4e5f6-") for change in made.of(page)]


def unsalted(email: str) -> str:
    text = f"Email={email}"
    return hashlib.sha256(f"{len(text)}:{text}".encode()).hexdigest()[:32]


def test_a_hashed_key_cannot_be_guessed_from_an_id_and_the_same_row_has_the_same_id() -> None:
    found = ids(HASHED, "ada@example.org", "bob@example.org")
    assert found == ids(HASHED, "ada@example.org", "bob@example.org")
    assert len(set(found)) == 2
    assert unsalted("ada@example.org") not in found
    assert found != ids(
        TableShape(masks=(("Email", mask_of("hash:SHA-256:other")),)), "ada@example.org", "bob@example.org"
    )


def test_where_the_key_is_sent_as_it_is_ids_stay_as_they_were() -> None:
    assert ids(AS_CAPTURED, "ada@example.org") == [unsalted("ada@example.org")]
    assert ids(TableShape(excluded=("Name",)), "ada@example.org") == [unsalted("ada@example.org")]


@pytest.mark.parametrize(
    "shape",
    [
        TableShape(excluded=("name",)),
        TableShape(columns=("Email",)),
        TableShape(masks=(("Name", mask_of("redact")),)),
        TableShape(masks=(("Name", mask_of("null")),)),
    ],
)
def test_an_order_by_values_that_are_hidden_without_a_salt_is_refused(shape: TableShape) -> None:
    with pytest.raises(ShapeRefused, match=r'in the order of "Name".* without a salt') as raised:
        key_of_ids(shape, COLUMNS, ("Name",))
    assert "hash:SHA-256:SALT" in (raised.value.hint or "")
    assert key_of_ids(shape, COLUMNS, ()) == b"", "without an order an id is a number"


def test_an_order_by_a_hidden_column_takes_the_salt_of_any_mask() -> None:
    shape = TableShape(excluded=("Name",), masks=HASHED.masks)
    assert key_of_ids(shape, COLUMNS, ("Name",)) == key_of_ids(HASHED, COLUMNS, ("Email",)) != b""
    assert b"sesame" not in key_of_ids(shape, COLUMNS, ("Name",))
