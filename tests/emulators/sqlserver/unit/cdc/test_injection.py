"""The log injector makes the shapes that real servers have been seen to make (Debezium PR #746 and #7728, KB 3030352)."""

from __future__ import annotations

import pytest

from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.injection import InjectedChange, InjectedTransaction, inject, reserve, without_command_ids
from emulators.sqlserver.results import SqlError
from tests.emulators.sqlserver.unit.cdc.conftest import Lab, person


def state_of(lab: Lab) -> DatabaseCdc:
    found = lab.extension.find(lab.database)
    assert found is not None
    return found


def test_a_transaction_that_began_first_may_commit_last(lab: Lab) -> None:
    """Debezium PR #746: the smaller seqval with the larger commit LSN."""
    lab.enable()
    cdc = state_of(lab)
    early, late = reserve(cdc, 2)
    second = inject(cdc, [InjectedChange("Persons", 2, late, person(2))])
    first = inject(cdc, [InjectedChange("Persons", 2, early, person(1))])
    lab.scan()
    assert [(c["ID"], c["__$start_lsn"], c["__$seqval"]) for c in lab.changes()] == [
        (2, second, late),
        (1, first, early),
    ]


def test_a_delete_and_an_insert_may_share_seqval_and_command_id(lab: Lab) -> None:
    """Before Debezium PR #7728 observed different command ids, both shapes were reported."""
    lab.enable()
    cdc = state_of(lab)
    (seqval,) = reserve(cdc, 1)
    inject(
        cdc,
        [
            InjectedChange("Persons", 1, seqval, person(1), command_id=3),
            InjectedChange("Persons", 2, seqval, person(2), command_id=3),
        ],
    )
    lab.scan()
    assert [(c["__$operation"], c["__$command_id"], c["ID"]) for c in lab.changes()] == [(1, 3, 1), (2, 3, 2)]


def test_an_injected_update_marks_the_named_columns(lab: Lab) -> None:
    lab.enable()
    cdc = state_of(lab)
    (seqval,) = reserve(cdc, 1)
    marked = frozenset({"LastName"})
    inject(cdc, [InjectedChange("Persons", op, seqval, person(1), changed=marked) for op in (3, 4)])
    lab.scan()
    assert [c["__$update_mask"] for c in lab.changes()] == [b"\x04", b"\x04"]


def test_unknown_tables_and_columns_are_refused(lab: Lab) -> None:
    lab.enable()
    for change, number in (
        (InjectedChange("Nobody", 2, b"", {}), 22931),
        (InjectedChange("Persons", 2, b"", {"Age": 1}), 22930),
    ):
        with pytest.raises(SqlError) as refused:
            inject(state_of(lab), [change])
        assert refused.value.number == number


def test_open_transactions_take_their_lsns_in_turn_and_commit_as_told(lab: Lab) -> None:
    lab.enable()
    cdc = state_of(lab)
    first, second = InjectedTransaction(cdc), InjectedTransaction(cdc)
    early = first.change("Persons", 2, person(1))
    late = second.change("Persons", 2, person(2))
    seqval = first.change("Persons", 1, person(3), command_id=2)
    assert first.change("Persons", 2, person(4), command_id=3, seqval=seqval) == seqval
    lsns = [second.commit(), first.commit()]
    lab.scan()
    assert early < late < seqval < min(lsns)
    assert [(c["ID"], c["__$start_lsn"]) for c in lab.changes()] == [
        (2, lsns[0]),
        *((number, lsns[1]) for number in (1, 3, 4)),
    ]
    begun = [entry["tran_begin_lsn"] for entry in lab.entries()]
    assert begun[1] < begun[0] < early


def test_a_chosen_commit_lsn_is_kept_and_the_log_goes_on_behind_it(lab: Lab) -> None:
    lab.enable()
    cdc = state_of(lab)
    chosen = bytes.fromhex("000000ff0000100000ff")
    assert inject(cdc, [InjectedChange("Persons", 2, bytes(10), person(1))], commit_lsn=chosen) == chosen
    with lab.database.transaction() as t:
        t.insert("Persons", person(2))
    lab.scan()
    assert [c["__$start_lsn"] > chosen for c in lab.changes()] == [False, True]
    with pytest.raises(ValueError, match="not larger"):
        inject(cdc, [], commit_lsn=chosen)


def test_masks_and_missing_command_ids_stand_as_they_were_given(lab: Lab) -> None:
    lab.enable()
    inject(state_of(lab), [InjectedChange("Persons", 4, bytes(10), person(1), command_id=None, mask=b"\xaa")])
    lab.scan()
    assert [(c["__$update_mask"], c["__$command_id"]) for c in lab.changes()] == [(b"\xaa", None)]


def test_a_change_table_that_was_never_upgraded_works_without_command_ids(lab: Lab) -> None:
    """KB 3030352 brought the column; capture, the functions and cleanup do without it."""
    with without_command_ids(state_of(lab)):
        lab.enable()
    lab.enable("Notes")
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
        t.update("Persons", lambda row: True, lambda row: {"ID": 2})
    lab.scan()
    table, other = (lab.database.table("cdc", f"dbo_{name}_CT") for name in ("Persons", "Notes"))
    assert table is not None
    assert other is not None
    assert [table.columns[-1].name, other.columns[-1].name] == ["LastName", "__$command_id"]
    (lsn,) = (entry["start_lsn"] for entry in lab.entries())
    assert [row[2:5:2] for row in lab.all_changes("dbo_Persons", lsn, lsn, "all")] == [(2, 1), (1, 1), (2, 2)]
    lab.run("sp_cdc_cleanup_change_table", capture_instance="dbo_Persons", low_water_mark=lsn)
    assert [instance.has_command_id for instance in state_of(lab).instances] == [False, True]
