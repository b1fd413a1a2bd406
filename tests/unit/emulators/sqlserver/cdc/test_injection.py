"""The log injector makes the shapes that real servers have been seen to make (Debezium PR #746 and #7728, KB 3030352)."""

from __future__ import annotations

import pytest

from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.injection import InjectedChange, inject, reserve
from emulators.sqlserver.results import SqlError
from tests.unit.emulators.sqlserver.cdc.conftest import Lab, person


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
