"""Change tables as real servers fill them and one writer cannot, read by the product's own reader: nothing is lost at any page size.

The shapes come from Debezium PR #746 (interleaved transactions), KB 3030352 and Debezium PR #7728 (key updates), and databases that
were never upgraded; each is appended to the emulator's log by its injector. A real server cannot be told to make them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dstream.emulators import Login
from emulators.sqlserver.build import build_engine, capture_of
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.injection import (
    InjectedChange,
    InjectedTransaction,
    inject,
    reserve,
    without_command_ids,
)
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import Value
from emulators.sqlserver.server import SqlServerEmulator
from ingester.change import Change
from ingester.sqlserver.position import LogPosition, in_the_log
from tests.contracts.source.test_source import Place

DELETE, INSERT, BEFORE, AFTER = 1, 2, 3, 4
PAGES = range(2, 9)
Told = list[tuple[str, int]]
"""What a reader shall be told: operation and ID, in order."""


class Bench:
    """A database with dbo.Persons under CDC, its injector, and the product's reader."""

    def __init__(self, engine: SqlEngine, login: Login, *, command_ids: bool, before_images: bool) -> None:
        self.place = Place(login, before_images=before_images)
        self.cdc = capture_of(engine, login.database)
        if command_ids:
            self.place.enable()
        else:
            with without_command_ids(self.cdc):
                self.place.enable()
        self.place.execute("EXEC sys.sp_cdc_stop_job")

    def read(self, rows: int) -> list[Change]:
        self.place.scan()
        found = self.place.read(rows)
        assert [c.position for c in found] == sorted({c.position for c in found})
        return found


Benches = Callable[..., Bench]


@pytest.fixture(scope="module")
def engine() -> Iterator[SqlEngine]:
    made = build_engine(users={"sa": "test-Password-1"}, capture_interval=3600)
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(engine: SqlEngine) -> Iterator[SqlServerEmulator]:
    with SqlServerEmulator(engine) as running:
        yield running


_numbers = count(1)


@pytest.fixture
def bench(engine: SqlEngine, server: SqlServerEmulator) -> Iterator[Benches]:
    made: list[Bench] = []

    def make(*, command_ids: bool = True, before_images: bool = False) -> Bench:
        name = f"injected{next(_numbers)}"
        engine.create_database(name)
        login = Login("127.0.0.1", server.port, "sa", "test-Password-1", name)
        made.append(Bench(engine, login, command_ids=command_ids, before_images=before_images))
        return made[-1]

    yield make
    for one in made:
        one.place.execute("EXEC sys.sp_cdc_disable_db")
        one.place.close()


def person(number: int, name: str = "a") -> dict[str, Value]:
    return {"ID": number, "Name": name, "Bio": None}


def told(changes: list[Change]) -> Told:
    return [(change.operation.name, int(str(change.data["ID"]))) for change in changes]


# The shapes: each fills the log and says what a reader shall be told.


def interleaved(cdc: DatabaseCdc) -> Told:
    """T1 begins first and T2 commits first; their rows alternate."""
    first, second = InjectedTransaction(cdc), InjectedTransaction(cdc)
    for number in range(1, 5):
        first.change("Persons", INSERT, person(number), command_id=number)
        second.change("Persons", INSERT, person(10 + number), command_id=number)
    second.commit()
    first.commit()
    return [("INSERT", n) for n in (11, 12, 13, 14, 1, 2, 3, 4)]


def nested(cdc: DatabaseCdc) -> Told:
    """A long transaction holds the smallest seqvals and commits after three short ones."""
    long = InjectedTransaction(cdc)
    for number in range(1, 4):
        long.change("Persons", INSERT, person(number))
    for number in range(11, 14):
        short = InjectedTransaction(cdc)
        short.change("Persons", INSERT, person(number))
        short.commit()
    long.change("Persons", INSERT, person(4))
    long.commit()
    return [("INSERT", n) for n in (11, 12, 13, 1, 2, 3, 4)]


def deferred_sharing_seqvals(cdc: DatabaseCdc) -> Told:
    """A deferred update: all deletes under one command id, all inserts under the next, each pair with one seqval."""
    t = InjectedTransaction(cdc)
    seqvals = [t.change("Persons", DELETE, person(number), command_id=5) for number in range(1, 6)]
    for number, seqval in enumerate(seqvals, 1):
        t.change("Persons", INSERT, person(number + 1), command_id=6, seqval=seqval)
    t.commit()
    return [("DELETE", n) for n in range(1, 6)] + [("INSERT", n) for n in range(2, 7)]


def deferred_with_seqvals_of_their_own(cdc: DatabaseCdc) -> Told:
    """The inserts have the larger seqvals."""
    t = InjectedTransaction(cdc)
    for number in range(1, 6):
        t.change("Persons", DELETE, person(number), command_id=5)
    for number in range(2, 7):
        t.change("Persons", INSERT, person(number), command_id=6)
    t.commit()
    return [("DELETE", n) for n in range(1, 6)] + [("INSERT", n) for n in range(2, 7)]


def pairs_under_one_command(cdc: DatabaseCdc) -> Told:
    """Key updates of single rows whose delete and insert share seqval and command id."""
    t = InjectedTransaction(cdc)
    for number in range(1, 5):
        seqval = t.change("Persons", DELETE, person(number), command_id=number)
        t.change("Persons", INSERT, person(number + 10), command_id=number, seqval=seqval)
    t.commit()
    return [pair for n in range(1, 5) for pair in (("DELETE", n), ("INSERT", n + 10))]


def insert_before_delete(cdc: DatabaseCdc) -> Told:
    """The order that old builds were seen to write."""
    t = InjectedTransaction(cdc)
    for number in range(1, 5):
        t.change("Persons", INSERT, person(number + 10), command_id=2 * number)
        t.change("Persons", DELETE, person(number), command_id=2 * number + 1)
    t.commit()
    return [pair for n in range(1, 5) for pair in (("INSERT", n + 10), ("DELETE", n))]


def seqvals_against_commands(cdc: DatabaseCdc) -> Told:
    """Later statements with smaller seqvals: the command id decides."""
    seqvals = reserve(cdc, 6)
    inject(
        cdc,
        [
            InjectedChange("Persons", INSERT, seqval, person(number), command_id=number)
            for number, seqval in enumerate(reversed(seqvals), 1)
        ],
    )
    return [("INSERT", n) for n in range(1, 7)]


def odd_lsns(cdc: DatabaseCdc) -> Told:
    """Commit LSNs with far gaps, one of nothing but printable bytes (which the driver would send as text), and the largest slot."""
    for number, lsn in enumerate(
        (b"0\0\0\0\0\0\0\1\xff\xff", b"00%s'%d--;", b"\x7f\xff\xff\xff\xff\xff\xff\xf0\xff\xff"), 1
    ):
        changes = [
            InjectedChange("Persons", INSERT, seqval, person(number * 10 + i))
            for i, seqval in enumerate(reserve(cdc, 3))
        ]
        assert inject(cdc, changes, commit_lsn=lsn) == lsn
    return [("INSERT", n * 10 + i) for n in (1, 2, 3) for i in range(3)]


def updates(cdc: DatabaseCdc) -> Told:
    """Both images of several rows under one command id, the rows' seqvals alternating with another transaction's."""
    first, second = InjectedTransaction(cdc), InjectedTransaction(cdc)
    for number in range(1, 5):
        for t, at in ((first, number), (second, number + 10)):
            seqval = t.change("Persons", BEFORE, person(at, "a"), changed=["Name"])
            t.change("Persons", AFTER, person(at, "b"), changed=["Name"], seqval=seqval)
    second.commit()
    first.commit()
    return [("UPDATE", n) for n in (11, 12, 13, 14, 1, 2, 3, 4)]


SHAPES = (
    *(interleaved, nested, deferred_sharing_seqvals, deferred_with_seqvals_of_their_own, pairs_under_one_command),
    *(insert_before_delete, seqvals_against_commands, odd_lsns, updates),
)


@pytest.mark.parametrize("before_images", [False, True], ids=["after images", "both images"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_every_change_is_read_once_and_in_order(
    bench: Benches, shape: Callable[[DatabaseCdc], Told], before_images: bool
) -> None:
    made = bench(before_images=before_images)
    expected = shape(made.cdc)
    for rows in PAGES:
        assert told(made.read(rows)) == expected, f"pages of {rows}"


@pytest.mark.parametrize("before_images", [False, True], ids=["after images", "both images"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_nothing_is_lost_without_command_ids(
    bench: Benches, shape: Callable[[DatabaseCdc], Told], before_images: bool
) -> None:
    """Seqvals and operations alone order the rows of a transaction there, so only completeness is asked for."""
    made = bench(command_ids=False, before_images=before_images)
    assert not made.place.instance().has_command_id
    expected = shape(made.cdc)
    for rows in PAGES:
        assert sorted(told(made.read(rows))) == sorted(expected), f"pages of {rows}"


def test_a_transaction_that_began_first_has_the_smaller_seqvals_and_the_larger_commit_lsn(bench: Benches) -> None:
    """What the shape is meant to be (Debezium PR #746)."""
    made = bench()
    interleaved(made.cdc)
    found = made.read(100)
    second, first = found[:4], found[4:]
    assert max(in_the_log(c.position).lsn for c in second) < min(in_the_log(c.position).lsn for c in first)
    begin, middle, end = (in_the_log(c.position).seqval for c in (first[0], second[0], first[-1]))
    assert begin < middle < end


def test_a_mask_is_read_as_it_is(bench: Benches) -> None:
    """A mask that says less than the images do."""
    made = bench(before_images=True)
    (seqval,) = reserve(made.cdc, 1)
    inject(
        made.cdc,
        [InjectedChange("Persons", op, seqval, person(1, str(op)), mask=b"\x04") for op in (BEFORE, AFTER)],
    )
    (change,) = made.read(10)
    assert change.changed_columns == ("Bio",)


def test_a_commit_lsn_must_be_larger_than_all_before_it(bench: Benches) -> None:
    made = bench()
    lsn = inject(made.cdc, [])
    with pytest.raises(ValueError, match="not larger than every one before it"):
        inject(made.cdc, [], commit_lsn=lsn)


@st.composite
def transactions(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Changes of one transaction as (operation, command id, which of its seqvals), no two at the same position."""
    one = st.tuples(st.sampled_from([DELETE, INSERT, AFTER]), st.integers(1, 3), st.integers(0, 3))
    return draw(st.lists(one, min_size=1, max_size=9, unique=True))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(log=st.lists(transactions(), min_size=1, max_size=3), rows=st.integers(2, 8), data=st.data())
def test_whatever_the_log_holds_pages_of_any_size_hold_it_once(
    bench: Benches, log: list[list[tuple[int, int, int]]], rows: int, data: st.DataObject
) -> None:
    made = bench()
    expected = []
    for number, changes in enumerate(log):
        seqvals = data.draw(st.permutations(reserve(made.cdc, 4)))
        injected = [
            InjectedChange(
                "Persons", op, seqvals[at], person(100 * number + i), command_id=command, changed=frozenset({"Name"})
            )
            for i, (op, command, at) in enumerate(changes)
        ]
        lsn = inject(made.cdc, injected)
        expected += [(lsn, c.command_id, c.seqval, c.operation, c.values["ID"]) for c in injected]
    found = made.read(rows)
    places = [in_the_log(c.position) for c in found]
    positions = [(p.lsn.value, p.command_id, p.seqval, p.operation) for p in places]
    assert [(*position, c.data["ID"]) for position, c in zip(positions, found, strict=True)] == sorted(expected)
    assert all(p > LogPosition.before(p.lsn) for p in places)


@pytest.mark.parametrize("rows", range(2, 7))
def test_rows_from_before_the_upgrade_have_no_command_id(bench: Benches, rows: int) -> None:
    """`__$command_id` came to old change tables as a nullable column; what was captured before holds NULL there (unverified)."""
    made = bench()
    t = InjectedTransaction(made.cdc)
    for number in range(1, 8):
        t.change("Persons", INSERT, person(number), command_id=None)
    t.commit()
    later = InjectedTransaction(made.cdc)
    for number in range(8, 11):
        later.change("Persons", INSERT, person(number))
    later.commit()
    assert told(made.read(rows)) == [("INSERT", n) for n in range(1, 11)]
