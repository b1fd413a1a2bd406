"""Parts of a stride: together every change once, a key's changes in one of them in order, an update's images in one change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from common.errors import PermanentError
from common.names import TableName
from emulators.sqlserver.cdc.database import DatabaseCdc
from ingester.change import Change, Operation
from ingester.position import Position
from ingester.source import CaptureInstance, PageQuery, Part, ProbeRequest, Stride
from tests.contracts.source.conftest import Log, Places
from tests.contracts.source.log_shapes import SHAPES, Told, told
from tests.contracts.source.test_source import PERSONS, Place


def first(place: Place, instance: CaptureInstance, rows: int, after: Position | None = None) -> Stride | None:
    """The first `rows` rows of what was captured, from `after` on."""
    probe = place.source.probe([ProbeRequest(instance, None)])
    assert probe.upto is not None
    after = after or instance.start
    return place.source.stride(instance, after=after, upto=probe.upto, rows=rows)


def read(
    place: Place,
    of: int,
    *,
    table: TableName = PERSONS,
    rows: int = 1000,
    page: int = 3,
    columns: Sequence[str] = ("ID",),
    after: Position | None = None,
) -> list[list[Change]]:
    """The changes of each part of a stride of `rows` rows, in pages of `page`."""
    instance = place.instance(table)
    stride = first(place, instance, rows, after)
    assert stride is not None
    parts = []
    for number in range(of):
        part = Part(1, number, of, tuple(columns), stride.rows)
        at: Position | None = after or instance.start
        changes: list[Change] = []
        while at is not None:
            found = place.source.page(PageQuery(instance, after=at, upto=stride.end, rows=page, part=part))
            changes += found.changes
            at = found.end if found.full else None
        assert all(one.position < other.position for one, other in pairwise(changes))
        parts.append(changes)
    return parts


def merged(parts: Sequence[Sequence[Change]]) -> list[Change]:
    return sorted((change for part in parts for change in part), key=lambda change: change.position)


@pytest.mark.parametrize("before_images", [False, True], ids=["after images", "both images"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_the_parts_of_a_stride_hold_every_change_once_whatever_the_log_holds(
    places: Places, log: Log, shape: Callable[[DatabaseCdc], Told], before_images: bool
) -> None:
    place = places(before_images=before_images)
    expected = shape(log(place))
    place.scan()
    for of, page in ((1, 2), (2, 1), (3, 2), (3, 100)):
        parts = read(place, of, page=page)
        assert told(merged(parts)) == expected
        for part in parts:
            assert not {c.key for c in part} & {c.key for other in parts if other is not part for c in other}


@pytest.mark.parametrize("command_ids", [True, False])
def test_strides_of_any_length_follow_each_other_without_gap_or_duplicate(places: Places, command_ids: bool) -> None:
    place = places(command_ids=command_ids)
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1), (2), (3), (4), (5), (6), (7), (8)")
    place.execute("UPDATE dbo.Persons SET Name = N'a'")
    place.execute("UPDATE dbo.Persons SET Name = N'b' WHERE ID < 4")
    place.execute("DELETE FROM dbo.Persons WHERE ID = 1")
    place.scan()
    expected, instance = place.read(), place.instance()
    for rows in (1, 2, 3, 7, 20, 100):
        at, found = instance.start, list[Change]()
        while (stride := first(place, instance, rows, at)) is not None:
            assert stride.rows == min(rows, len(expected) - len(found))
            changes = merged(read(place, 3, rows=rows, page=2, after=at))
            assert changes[-1].position == stride.end
            found, at = found + changes, stride.end
        assert found == expected, f"strides of {rows}"


def test_rows_from_before_the_upgrade_belong_to_the_parts_as_others_do(places: Places) -> None:
    place = places(before_images=True)
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1), (2), (3), (4), (5), (6)")
    place.execute("UPDATE dbo.Persons SET Name = N'a'")
    place.scan()
    place.execute("UPDATE cdc.dbo_Persons_CT SET [__$command_id] = NULL WHERE [__$operation] > 2")
    expected = place.read()
    for rows, page in ((1, 1), (4, 2), (9, 3), (100, 100)):
        at, found = place.instance().start, list[Change]()
        while (stride := first(place, place.instance(), rows, at)) is not None:
            found += merged(read(place, 2, rows=rows, page=page, after=at))
            at = stride.end
        assert found == expected, f"strides of {rows}, pages of {page}"


KEYS = {
    "INT": (["1", "-2147483648", "10", "20", "30", "0"], []),
    "BIGINT": (["9223372036854775807", "-1", "100"], []),
    "BIT": (["0", "1"], []),
    "DECIMAL(38,4)": (["1.5", "-0.0001", "12345678901234567890"], []),
    "MONEY": (["1.5", "-1"], []),
    "NVARCHAR(20) COLLATE Latin1_General_CI_AI": (["N'Zoë'", "N'b'", "N'-'"], ["N'zoe'", "N'B  '", "N'-'"]),
    "VARCHAR(20) COLLATE Latin1_General_CS_AS": (["'a'", "'A'", "''"], []),
    "CHAR(5)": (["'x'", "'y'"], []),
    "VARBINARY(8)": (["0x01", "0x02", "0x"], []),
    "UNIQUEIDENTIFIER": (["'6F9619FF-8B86-D011-B42D-00C04FC964FF'", "'00000000-0000-0000-0000-000000000001'"], []),
    "DATE": (["'2024-01-01'", "'0001-01-01'"], []),
    "DATETIME": (["'2024-01-01T10:00:00.003'", "'1753-01-01'"], []),
    "DATETIME2(7)": (["'2024-01-01T10:00:00.1234567'", "'9999-12-31'"], []),
    "TIME(7)": (["'10:00:00.1234567'", "'00:00'"], []),
}
"""A key's type: values, and for some of them another spelling that the collation holds equal."""


@pytest.mark.parametrize("kind", KEYS, ids=lambda kind: kind.split("(")[0])
def test_a_keys_changes_are_in_one_part_whatever_its_type(places: Places, kind: str) -> None:
    place, table = places(), TableName("dbo", "Things")
    values, spellings = KEYS[kind]
    place.execute(f"CREATE TABLE dbo.Things (K {kind} NOT NULL, Area INT NOT NULL, PRIMARY KEY (Area, K))")
    place.enable(table="Things")
    for key in values:
        place.execute(f"INSERT INTO dbo.Things VALUES ({key}, 1), ({key}, 2)")
        place.execute(f"DELETE FROM dbo.Things WHERE K = {key}")
    for key in spellings:
        place.execute(f"INSERT INTO dbo.Things VALUES ({key}, 1)")
    place.scan()
    for columns in (("K",), ("Area", "K")):
        parts = read(place, 3, table=table, columns=columns)
        assert merged(parts) == place.read(table=table)
        homes: dict[object, set[int]] = {}
        for number, part in enumerate(parts):
            for change in part:
                homes.setdefault((change.data["Area"], comparable(change.data["K"], kind)), set()).add(number)
        assert all(len(found) == 1 for found in homes.values()), homes


def comparable(value: object, kind: str) -> object:
    """What is the same for the spellings of KEYS."""
    return str(value).casefold().replace("ë", "e").rstrip() if kind.endswith("CI_AI") else value


def test_a_null_in_the_hashed_columns_has_a_share(places: Places) -> None:
    place = places()
    place.execute("INSERT INTO dbo.Persons (ID, Name) VALUES (1, NULL), (2, NULL), (3, N'c')")
    place.scan()
    parts = read(place, 3, columns=("Name",))
    assert len(merged(parts)) == 3
    assert sorted(len(part) for part in parts if any(c.data["Name"] is None for c in part))[-1] >= 2


def test_both_images_of_an_update_are_one_change_even_if_they_hash_apart(places: Places) -> None:
    place = places(before_images=True)
    listed = ", ".join(f"({n}, N'old {n}')" for n in range(40))
    place.execute(f"INSERT INTO dbo.Persons (ID, Name) VALUES {listed}")
    place.execute("UPDATE dbo.Persons SET Name = REPLACE(Name, N'old', N'new')")
    place.scan()
    updates = [c for c in merged(read(place, 3, columns=("Name",))) if c.operation is Operation.UPDATE]
    assert [(c.before or {})["Name"] for c in updates] == [f"old {n}" for n in range(40)]
    assert [c.data["Name"] for c in updates] == [f"new {n}" for n in range(40)]


def test_keys_that_step_by_the_number_of_parts_are_spread_nevertheless(places: Places) -> None:
    place = places()
    place.execute(f"INSERT INTO dbo.Persons (ID) VALUES {', '.join(f'({n * 12})' for n in range(120))}")
    place.scan()
    for of in (2, 3, 4):
        assert min(len(part) for part in read(place, of, page=1000)) > 120 / of / 3


def test_the_place_in_the_log_spreads_a_table_without_a_key(places: Places) -> None:
    place = places(before_images=True)
    place.execute(f"INSERT INTO dbo.Persons (ID) VALUES {', '.join(f'({n})' for n in range(60))}")
    place.execute("UPDATE dbo.Persons SET Name = N'x'")
    place.scan()
    parts = read(place, 3, columns=("__$seqval",), page=1000)
    assert merged(parts) == place.read(1000)
    assert min(map(len, parts)) > 10


def test_an_empty_window_has_no_stride(places: Places) -> None:
    place = places()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    assert first(place, place.instance(), 5, place.read()[-1].position) is None


def test_the_published_functions_have_no_parts_and_say_so(places: Places) -> None:
    place = places(query_mode="function")
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    with pytest.raises(PermanentError, match="query_mode"):
        first(place, place.instance(), 5)
