"""The events about transactions as a person sees and moves them: a table like any other, and not one that has rows or a replay."""

from __future__ import annotations

import pytest

from tests.contracts.operating.conftest import Desk


@pytest.fixture
def counting(desk: Desk) -> Desk:
    """With `transactions = true`."""
    desk.place.settings["more"] = "transactions = true"
    desk.place.make_queue()
    return desk


def test_their_status_is_that_of_a_table(counting: Desk) -> None:
    counting.insert(1, 2, 3)
    found = counting.run("status", "--json")
    assert found.status == 0, found.out
    persons, transactions = found.document["tables"]
    assert persons["table"] == "dbo.Persons"
    assert transactions["table"] == "cdc.transactions"
    assert transactions["capture_instance"] == "cdc.lsn_time_mapping"
    assert transactions["lag"]["changes"] == 3
    assert "problem" not in counting.run("status").out


def test_their_offset_is_moved_as_any_other(counting: Desk) -> None:
    *_, second, last = counting.insert(1, 2, 3)
    begun = counting.run("offsets", "set", "cdc.transactions", "--lsn", second, "--skip", "--reason", "from here on")
    assert begun.status == 0, begun.err
    [table] = counting.run("offsets", "CDC.Transactions", "--json").document["tables"]
    assert (table["table"], table["offset"]["lsn"]) == ("cdc.transactions", second[2:].lower())
    [_, table] = counting.run("status", "--json").document["tables"]
    assert table["lag"]["changes"] == 2
    moved = counting.run("offsets", "set", "cdc.transactions", "--latest", "--skip", "--reason", "from now on")
    assert moved.status == 0, moved.err
    [table] = counting.run("offsets", "cdc.transactions", "--json").document["tables"]
    assert table["offset"]["lsn"] >= last[2:].lower()


@pytest.mark.parametrize("command", [("snapshot", "start"), ("replay",)])
def test_they_have_no_rows_and_no_replay(counting: Desk, command: tuple[str, ...]) -> None:
    more = ("--from", "2026-01-01", "--to", "2026-01-02", "--to-topic", "t") if command == ("replay",) else ()
    ran = counting.run(*command, "cdc.transactions", *more)
    assert ran.status == 2
    assert "no such table in the configuration" in ran.out + ran.err
