"""Pages of a change table: of every size, through the table and through its function, never larger than so many bytes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.errors import PermanentError
from common.names import TableName
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.injection import InjectedChange, InjectedTransaction, inject, reserve
from ingester.change import Change, Operation
from ingester.position import Position
from ingester.source import CaptureInstance, PageQuery, ProbeRequest
from ingester.sqlserver.position import LogPosition, Lsn, in_the_log
from ingester.sqlserver.source import SqlServerSource
from tests.contracts.source.conftest import Log, Places
from tests.contracts.source.log_shapes import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    SHAPES,
    Told,
    deferred_sharing_seqvals,
    insert_before_delete,
    person,
    seqvals_against_commands,
    told,
)
from tests.contracts.source.test_source import Place

MODES = ["direct", "function"]
BY_COMMAND = (deferred_sharing_seqvals, insert_before_delete, seqvals_against_commands)
"""Shapes whose order only the command ids tell: the published functions do not have those (docs/configuration.md)."""


def window(place: Place) -> tuple[CaptureInstance, Position, Position]:
    instance = place.instance()
    probe = place.source.probe([ProbeRequest(instance, None)])
    assert probe.upto is not None
    return instance, instance.start, probe.upto


def sizes(place: Place, rows: int) -> list[int]:
    """How many changes each page holds."""
    instance, after, upto = window(place)
    found = []
    while True:
        page = place.source.page(PageQuery(instance, after=after, upto=upto, rows=rows))
        found.append(len(page.changes))
        if page.end is None or not page.full:
            return found
        after = page.end


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("before_images", [False, True], ids=["after images", "both images"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_whatever_the_log_holds_every_page_size_from_one_row_on_reads_it_once(
    places: Places, log: Log, shape: Callable[[DatabaseCdc], Told], before_images: bool, mode: str
) -> None:
    place = places(before_images=before_images, query_mode=mode)
    expected = shape(log(place))
    place.scan()
    for rows in (1, 2, 3, 5, 100):
        found = place.read(rows)
        assert [c.position for c in found] == sorted({c.position for c in found})
        if mode == "function" and shape in BY_COMMAND:
            assert sorted(told(found)) == sorted(expected), f"pages of {rows}"
        else:
            assert told(found) == expected, f"pages of {rows}"


@pytest.mark.parametrize("before_images", [False, True], ids=["after images", "both images"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_nothing_is_lost_without_command_ids(
    places: Places, log: Log, shape: Callable[[DatabaseCdc], Told], before_images: bool
) -> None:
    """Seqvals and operations alone order the rows of a transaction there, so only completeness is asked for."""
    place = places(command_ids=False, before_images=before_images)
    assert not place.instance().has_command_id
    expected = shape(log(place))
    place.scan()
    for rows in (1, 2, 3, 5, 100):
        found = place.read(rows)
        assert [c.position for c in found] == sorted({c.position for c in found})
        assert sorted(told(found)) == sorted(expected), f"pages of {rows}"


@st.composite
def transactions(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Changes of one transaction as (operation, command id, which of its seqvals), no two at the same position."""
    one = st.tuples(st.sampled_from([DELETE, INSERT, AFTER]), st.integers(1, 3), st.integers(0, 3))
    return draw(st.lists(one, min_size=1, max_size=9, unique=True))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(transactions(), min_size=1, max_size=3), rows=st.integers(2, 8), data=st.data())
def test_whatever_the_log_holds_pages_of_any_size_hold_it_once(
    places: Places, log: Log, history: list[list[tuple[int, int, int]]], rows: int, data: st.DataObject
) -> None:
    place = places()
    cdc = log(place)
    expected = []
    for number, changes in enumerate(history):
        seqvals = data.draw(st.permutations(reserve(cdc, 4)))
        injected = [
            InjectedChange(
                "Persons", op, seqvals[at], person(100 * number + i), command_id=command, changed=frozenset({"Name"})
            )
            for i, (op, command, at) in enumerate(changes)
        ]
        lsn = inject(cdc, injected)
        expected += [(lsn, c.command_id, c.seqval, c.operation, c.values["ID"]) for c in injected]
    found = changes_of(place, rows)
    positions = [in_the_log(c.position) for c in found]
    assert [
        (p.lsn.value, p.command_id, p.seqval, p.operation, c.data["ID"]) for p, c in zip(positions, found, strict=True)
    ] == sorted(expected)
    assert all(p > LogPosition.before(p.lsn) for p in positions)


@pytest.mark.parametrize("rows", range(2, 7))
def test_rows_from_before_the_upgrade_have_no_command_id(places: Places, log: Log, rows: int) -> None:
    """`__$command_id` came to old change tables as a nullable column; what was captured before holds NULL there (unverified)."""
    place = places()
    t = InjectedTransaction(log(place))
    for number in range(1, 8):
        t.change("Persons", INSERT, person(number), command_id=None)
    t.commit()
    later = InjectedTransaction(log(place))
    for number in range(8, 11):
        later.change("Persons", INSERT, person(number))
    later.commit()
    assert told(changes_of(place, rows)) == [("INSERT", n) for n in range(1, 11)]


def test_a_mask_is_read_as_it_is(places: Places, log: Log) -> None:
    """One that says less than the images do."""
    place = places(before_images=True)
    (seqval,) = reserve(log(place), 1)
    inject(
        log(place),
        [InjectedChange("Persons", op, seqval, person(1, str(op)), mask=b"\x04") for op in (BEFORE, AFTER)],
    )
    (change,) = changes_of(place, 10)
    assert change.changed_columns == ("Bio",)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_an_update_is_one_change_with_both_its_images_wherever_a_page_ends(
    places: Places, rows: int, mode: str
) -> None:
    place = places(before_images=True, query_mode=mode)
    place.execute("INSERT INTO dbo.Persons (ID, Name) VALUES (1, N'a'), (2, N'a')")
    place.execute("UPDATE dbo.Persons SET Name = N'b'")
    place.scan()
    updates = [c for c in place.read(rows) if c.operation is Operation.UPDATE]
    assert [(c.before and c.before["Name"], c.data["Name"]) for c in updates] == [("a", "b")] * 2
    assert max(sizes(place, rows)) <= rows


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("before_images", [False, True], ids=["after images", "both images"])
def test_a_page_ends_after_so_many_bytes_whatever_its_rows(places: Places, before_images: bool, mode: str) -> None:
    """Wide rows make small pages; one that is wider than a page is a page of its own, and an update is never torn."""
    place = places(before_images=before_images, query_mode=mode, page_bytes=40_000)
    place.execute("INSERT INTO dbo.Persons (ID, Bio) VALUES " + ", ".join(f"({n}, N'x')" for n in range(1, 9)))
    place.execute("UPDATE dbo.Persons SET Bio = REPLICATE(CAST(N'y' AS NVARCHAR(MAX)), 5000) WHERE ID < 6")
    place.execute("UPDATE dbo.Persons SET Bio = REPLICATE(CAST(N'z' AS NVARCHAR(MAX)), 30000) WHERE ID > 6")
    place.scan()
    found = place.read(1000)
    assert told(found[:8]) == [("INSERT", n) for n in range(1, 9)]
    assert sorted(told(found[8:])) == [("UPDATE", n) for n in (1, 2, 3, 4, 5, 7, 8)]
    assert [len(str(c.data["Bio"])) for c in found[8:]] == [5000] * 5 + [30000] * 2
    assert sizes(place, 1000)[:3] == [12, 2, 1]


@pytest.mark.parametrize("mode", MODES)
def test_a_page_of_wide_rows_fetches_no_more_of_them_than_it_holds(places: Places, mode: str) -> None:
    place = places(query_mode=mode, page_bytes=20_000)
    place.execute("INSERT INTO dbo.Persons (ID, Bio) VALUES " + ", ".join(f"({n}, N'x')" for n in range(1, 31)))
    place.execute("UPDATE dbo.Persons SET Bio = REPLICATE(CAST(N'y' AS NVARCHAR(MAX)), 4000)")
    place.scan()
    fetched: list[int] = []
    cursor = place.connection.rows_until

    def counting(sql: str, parameters: object, enough: Callable[[tuple[object, ...]], bool]) -> object:
        def counted(row: tuple[object, ...]) -> bool:
            fetched.append(len(row))
            return enough(row)

        return cursor(sql, parameters, counted)  # type: ignore[arg-type]

    place.connection.rows_until = counting  # type: ignore[method-assign, assignment]
    instance, after, upto = window(place)
    page = place.source.page(PageQuery(instance, after=after, upto=upto, rows=1000))
    assert page.full
    assert len(page.changes) <= len(fetched) <= 35


@pytest.mark.parametrize("mode", MODES)
def test_one_transaction_of_many_pages_is_read_in_order(places: Places, mode: str) -> None:
    place = places(query_mode=mode)
    place.execute("BEGIN TRANSACTION")
    for first in range(0, 1000, 500):
        values = ", ".join(f"({n}, N'n')" for n in range(first, first + 500))
        place.execute(f"INSERT INTO dbo.Persons (ID, Name) VALUES {values}")
    place.execute("COMMIT TRANSACTION")
    place.scan()
    found = place.read(101)
    assert [c.data["ID"] for c in found] == list(range(1000))
    assert len({in_the_log(c.position).lsn for c in found}) == 1


def by_function(place: Place) -> SqlServerSource:
    return SqlServerSource(place.connection, query_mode="function")


def test_an_offset_of_the_other_mode_loses_nothing(places: Places, log: Log) -> None:
    """A position with a command id says nothing about an order without: the transaction is read again, from its start."""
    place = places()
    expected = [("INSERT", n) for n in range(1, 7)]
    seqvals_against_commands(log(place))
    place.scan()
    instance, _, upto = window(place)
    for stopped in place.read():
        later = by_function(place).page(PageQuery(instance, after=stopped.position, upto=upto, rows=100))
        assert sorted(told(list(later.changes))) == expected
    for stopped in later.changes:
        again = place.source.page(PageQuery(instance, after=stopped.position, upto=upto, rows=100))
        assert told(list(again.changes)) == expected


@pytest.mark.parametrize("page_bytes", [1, 10**6])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_changes_that_only_a_command_id_tells_apart_are_refused_by_the_function_mode(
    places: Places, log: Log, rows: int, page_bytes: int
) -> None:
    """Two messages with one id would be one to duplicate detection; never seen on a server, so it is not guessed at."""
    place = places(query_mode="function", page_bytes=page_bytes)
    t = InjectedTransaction(log(place))
    seqval = t.change("Persons", INSERT, person(1), command_id=1)
    for command in (2, 3):
        seqval = t.change("Persons", DELETE, person(1), command_id=command, seqval=seqval)
    t.commit()
    place.scan()
    with pytest.raises(PermanentError, match="differ in their command ids only"):
        place.read(rows)


@pytest.mark.parametrize("mode", MODES)
def test_a_window_of_nothing_is_empty(places: Places, mode: str) -> None:
    place = places(query_mode=mode)
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    instance, _, upto = window(place)
    (only,) = place.read()
    after = LogPosition.end_of(in_the_log(only.position).lsn)
    beyond = Lsn((int.from_bytes(in_the_log(only.position).lsn.value, "big") + 1).to_bytes(10, "big"))
    for border in (LogPosition.before(beyond), upto):
        page = place.source.page(PageQuery(instance, after=only.position, upto=border, rows=5))
        assert (list(page.changes), page.end) == ([], None)
    assert place.source.page(PageQuery(instance, after=after, upto=LogPosition.before(beyond), rows=5)).end is None


def changes_of(place: Place, rows: int) -> list[Change]:
    place.scan()
    return place.read(rows)


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("command_ids", [False, True], ids=["never upgraded", "with command ids"])
def test_both_images_of_an_update_share_a_page_in_old_databases_too(
    places: Places, log: Log, command_ids: bool, rows: int
) -> None:
    place = places(command_ids=command_ids, before_images=True)
    t = InjectedTransaction(log(place))
    for number in range(1, 4):
        seqval = t.change("Persons", BEFORE, person(number, "a"), command_id=None, changed=["Name"])
        t.change("Persons", AFTER, person(number, "b"), command_id=None, changed=["Name"], seqval=seqval)
    t.commit()
    found = changes_of(place, rows)
    assert told(found) == [("UPDATE", n) for n in (1, 2, 3)]
    assert [c.before and c.before["Name"] for c in found] == ["a"] * 3


@pytest.mark.parametrize("mode", MODES)
def test_a_page_that_cleanup_overtook_tells_the_new_low_watermark(places: Places, mode: str) -> None:
    """The function answers such a window with error 313, the table with what is left: the watermark explains both."""
    place = places(query_mode=mode)
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.execute("WAITFOR DELAY '00:00:00.010'")  # commits of one tick of the clock keep a watermark in common
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (2)")
    place.scan()
    instance, after, upto = window(place)
    second = in_the_log(place.read()[1].position).lsn
    place.execute(f"EXEC sys.sp_cdc_cleanup_change_table N'dbo_Persons', @low_water_mark = {second}")
    assert place.source.page(PageQuery(instance, after=after, upto=upto, rows=10)).low_watermark == LogPosition.before(
        second
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_probe_looks_from_the_low_watermark_without_an_offset_and_tells_a_gap_with_one(
    places: Places, mode: str
) -> None:
    """The catalog may be older than the last cleanup; a function would answer a window below the watermark with error 313."""
    place = places(query_mode=mode)
    old = place.instance()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.execute("WAITFOR DELAY '00:00:00.010'")
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (2)")
    place.scan()
    first, second = (in_the_log(c.position) for c in place.read())
    place.execute(f"EXEC sys.sp_cdc_cleanup_change_table N'dbo_Persons', @low_water_mark = {second.lsn}")
    fresh = place.source.probe([ProbeRequest(old, None)]).answers["dbo_Persons"]
    assert (fresh.pending, fresh.low_watermark) == (True, LogPosition.before(second.lsn))
    behind = place.source.probe([ProbeRequest(old, first)]).answers["dbo_Persons"]
    assert behind.low_watermark == LogPosition.before(second.lsn)
    done = place.source.probe([ProbeRequest(old, second)]).answers["dbo_Persons"]
    assert done.pending is False


@pytest.mark.parametrize("mode", MODES)
def test_a_table_that_is_enabled_where_capture_lags_has_nothing_yet(places: Places, mode: str) -> None:
    """Its low watermark is above the max LSN then, which a function answers with error 313."""
    place = places(query_mode=mode)
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    place.execute("CREATE TABLE dbo.Late (ID INT PRIMARY KEY)")
    place.enable(table="Late")
    late = place.instance(TableName("dbo", "Late"))
    answer = place.source.probe([ProbeRequest(late, None)]).answers["dbo_Late"]
    assert answer.pending is False
