"""Net changes over a window. Sources: the page cdc.fn_cdc_get_net_changes_<capture_instance> (D), nine scenarios measured on SQL
Server 2025 (M), and the text of the generated functions (T)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulators.sqlserver.cdc.injection import InjectedChange, inject, reserve
from emulators.sqlserver.engine.extension import Row
from emulators.sqlserver.results import SqlError, Value
from tests.emulators.sqlserver.unit.cdc.conftest import INT, NAME, Lab, person
from tests.fakes.sql_database import FakeTransaction, Named

Step = Callable[[FakeTransaction], None]


def one(row: Named) -> bool:
    return bool(row["ID"] == 1)


def insert(t: FakeTransaction) -> None:
    t.insert("Persons", person(1))


def rename(t: FakeTransaction) -> None:
    t.update("Persons", one, lambda row: {"FirstName": row["FirstName"] + "x"})


def marry(t: FakeTransaction) -> None:
    t.update("Persons", one, lambda row: {"LastName": "Oak"})


def delete(t: FakeTransaction) -> None:
    t.delete("Persons", one)


def committed(lab: Lab, *steps: Step) -> bytes:
    """A transaction of these steps, captured; its commit LSN."""
    with lab.database.transaction() as t:
        for step in steps:
            step(t)
    lab.scan()
    lsn = lab.call("fn_cdc_get_max_lsn")
    assert isinstance(lsn, bytes)
    return lsn


def net(lab: Lab, *arguments: Value, instance: str = "dbo_Persons") -> list[Row]:
    function = lab.extension.table_function(lab.database, "cdc", f"fn_cdc_get_net_changes_{instance}")
    assert function is not None
    return list(function.call(lab.context, arguments))


SCENARIOS = {
    "A: inserted": ([], [insert], 2, 5),
    "B: inserted and updated": ([], [insert, rename], 2, 5),
    "C: inserted and deleted": ([], [insert, delete], None, None),
    "D: inserted, updated and deleted": ([], [insert, rename, delete], None, None),
    "E: updated": ([insert], [rename], 4, 5),
    "F: updated twice": ([insert], [rename, marry], 4, 5),
    "G: updated and deleted": ([insert], [rename, delete], 1, 1),
    "H: deleted": ([insert], [delete], 1, 1),
    "I: deleted and inserted again": ([insert], [delete, insert], 4, 5),
}


@pytest.mark.parametrize("together", [True, False], ids=["one transaction", "a transaction each"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_operation_depends_on_whether_the_row_existed_when_the_window_began(
    lab: Lab, scenario: str, together: bool
) -> None:
    """M, T: scenarios A to I collapse over the window, whatever transactions they came in."""
    before, steps, plain, merged = SCENARIOS[scenario]
    lab.enable()
    committed(lab, *before, lambda t: t.insert("Persons", person(99)))
    low, *_ = [committed(lab, *steps)] if together else [committed(lab, step) for step in steps]
    high = lab.call("fn_cdc_get_max_lsn")
    assert [(row[0], row[1]) for row in net(lab, low, high, "all")] == ([] if plain is None else [(high, plain)])
    assert [row[1] for row in net(lab, low, high, "all with merge")] == ([] if merged is None else [merged])


def test_a_net_change_holds_the_last_values_and_no_seqval(lab: Lab) -> None:
    """D."""
    lab.enable()
    low = committed(lab, insert)
    high = committed(lab, rename, marry)
    function = lab.extension.table_function(lab.database, "cdc", "FN_CDC_GET_NET_CHANGES_DBO_PERSONS")
    assert function is not None
    assert [column.name for column in function.columns] == [
        *("__$start_lsn", "__$operation", "__$update_mask"),
        *("ID", "FirstName", "LastName"),
    ]
    assert net(lab, low, high, " ALL ") == [(high, 2, None, 1, "Annx", "Oak")]


def test_only_updates_carry_a_mask_and_it_joins_all_of_the_window(lab: Lab) -> None:
    """D: 'all with mask' marks the columns of an update; T: by the union of the masks."""
    lab.enable()
    low = committed(lab, insert)
    assert net(lab, low, low, "all with mask") == [(low, 2, None, 1, "Ann", "Lee")]
    first = committed(lab, rename)
    last = committed(lab, marry)
    assert net(lab, first, last, "all with mask") == [(last, 4, b"\x06", 1, "Annx", "Oak")]
    assert net(lab, last, last, "all with mask") == [(last, 4, b"\x04", 1, "Annx", "Oak")]
    assert net(lab, first, last, "all") == [(last, 4, None, 1, "Annx", "Oak")]
    gone = committed(lab, delete)
    assert net(lab, last, gone, "all with mask") == [(gone, 1, None, 1, "Annx", "Oak")]


def test_a_moved_key_is_a_deleted_row_and_an_inserted_one(lab: Lab) -> None:
    """D: rows are told apart by their key."""
    lab.enable()
    committed(lab, insert)
    moved = committed(lab, lambda t: t.update("Persons", one, lambda row: {"ID": 2}))
    assert sorted((row[1], row[3]) for row in net(lab, moved, moved, "all")) == [(1, 1), (2, 2)]


def test_the_unique_index_that_was_named_tells_rows_apart(lab: Lab) -> None:
    """D: @index_name."""
    lab.database.define("Mails", {"ID": INT, "Mail": NAME}, key=["ID"], unique=["Mail"])
    lab.enable("Mails", index_name="UQ_Mails", supports_net_changes=1)
    low = committed(lab, lambda t: t.insert("Mails", {"ID": 1, "Mail": "a"}))
    high = committed(lab, lambda t: t.update("Mails", one, lambda row: {"ID": 7}))
    assert net(lab, low, high, "all", instance="dbo_Mails") == [(high, 2, None, 7, "a")]


def test_keys_that_compare_equal_are_one_row(lab: Lab) -> None:
    """The default collation knows no case."""
    lab.database.define("Mails", {"Mail": NAME, "N": INT}, key=["Mail"])
    lab.enable("Mails")
    low = committed(lab, lambda t: t.insert("Mails", {"Mail": "A ", "N": 1}))
    high = committed(
        lab,
        lambda t: t.delete("Mails", lambda row: True),
        lambda t: t.insert("Mails", {"Mail": "a", "N": 2}),
    )
    assert net(lab, low, high, "all", instance="dbo_Mails") == [(high, 2, None, "a", 2)]


def test_transactions_that_began_in_another_order_net_by_their_commits(lab: Lab) -> None:
    """The last change is that of the last commit, though its seqval is the smaller one (Debezium PR #746)."""
    lab.enable()
    cdc = lab.extension.find(lab.database)
    assert cdc is not None
    early, late = reserve(cdc, 2)
    low = inject(cdc, [InjectedChange("Persons", 2, late, person(1, "first"))])
    high = inject(
        cdc,
        [InjectedChange("Persons", op, early, person(1, "last"), changed=frozenset({"FirstName"})) for op in (3, 4)],
    )
    lab.scan()
    assert net(lab, low, high, "all") == [(high, 2, None, 1, "last", "Lee")]


@pytest.mark.parametrize("row_filter", ["", "all update old", "net", None])
def test_a_filter_that_is_none_is_313(lab: Lab, row_filter: Value) -> None:
    """D, M: as for all changes."""
    lab.enable()
    lsn = committed(lab, insert)
    with pytest.raises(SqlError, match=r"function cdc\.fn_cdc_get_net_changes_ \.\.\. \.$") as refused:
        net(lab, lsn, lsn, row_filter)
    assert refused.value.number == 313


def test_a_window_outside_the_validity_interval_is_313(lab: Lab) -> None:
    """D, M."""
    lab.enable()
    lsn = committed(lab, insert)
    for low, high in ((None, lsn), (lsn, None), (b"\0" * 10, lsn), (lsn, b"\xff" * 10)):
        with pytest.raises(SqlError) as refused:
            net(lab, low, high, "all")
        assert refused.value.number == 313


def test_there_is_no_function_where_net_changes_are_not_supported(lab: Lab) -> None:
    """D: the function exists only with @supports_net_changes = 1; the engine answers 208."""
    lab.enable("Notes", supports_net_changes=0)
    assert lab.extension.table_function(lab.database, "cdc", "fn_cdc_get_net_changes_dbo_Notes") is None
