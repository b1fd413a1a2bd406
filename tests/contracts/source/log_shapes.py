"""Logs as real servers fill them and one writer cannot, appended to the emulator's by its injector; each says what a reader is to be told.

The shapes come from Debezium PR #746 (interleaved transactions), KB 3030352 and Debezium PR #7728 (key updates). A real server cannot
be told to make them.
"""

from __future__ import annotations

from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.injection import InjectedChange, InjectedTransaction, inject, reserve
from emulators.sqlserver.results import Value
from ingester.change import Change

DELETE, INSERT, BEFORE, AFTER = 1, 2, 3, 4
Told = list[tuple[str, int]]
"""What a reader shall be told: operation and ID, in order."""


def person(number: int, name: str = "a") -> dict[str, Value]:
    return {"ID": number, "Name": name, "Bio": None}


def told(changes: list[Change]) -> Told:
    return [(change.operation.name, int(str(change.data["ID"]))) for change in changes]


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
