"""What a change becomes in the change table. Sources: the page cdc.<capture_instance>_CT (D), measured on SQL Server 2025 (M),
KB 238254 and Debezium PR #7728 for key updates (Z)."""

from __future__ import annotations

import pytest

from tests.emulators.sqlserver.unit.cdc.conftest import INT, Lab, person
from tests.fakes.sql_database import Named


def brief(change: Named) -> tuple[object, ...]:
    return (change["__$operation"], change["__$command_id"], change["ID"])


def everyone(row: Named) -> bool:
    return True


def test_an_insert_is_operation_2_with_all_mask_bits(lab: Lab) -> None:
    """D."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    lab.scan()
    (change,) = lab.changes()
    assert change["__$operation"] == 2
    assert change["__$update_mask"] == b"\x07"
    assert (change["ID"], change["FirstName"], change["LastName"]) == (1, "Ann", "Lee")
    assert change["__$end_lsn"] is None


def test_rows_of_one_insert_share_the_commit_lsn_and_have_their_own_seqvals(lab: Lab) -> None:
    """D, M."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1), person(2), person(3))
    lab.scan()
    changes = lab.changes()
    assert len({c["__$start_lsn"] for c in changes}) == 1
    assert len({c["__$seqval"] for c in changes}) == 3
    assert {c["__$command_id"] for c in changes} == {1}
    assert [c["ID"] for c in changes] == [1, 2, 3]


def test_seqval_is_below_the_commit_lsn(lab: Lab) -> None:
    """M: the commit record comes after the records of the transaction."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1), person(2))
    lab.scan()
    assert all(c["__$seqval"] < c["__$start_lsn"] for c in lab.changes())


def test_a_delete_is_operation_1_with_the_last_values_and_all_bits(lab: Lab) -> None:
    """D."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1, "Old"))
    with lab.database.transaction() as t:
        t.delete("Persons", everyone)
    lab.scan()
    change = lab.changes()[-1]
    assert (change["__$operation"], change["FirstName"], change["__$update_mask"]) == (1, "Old", b"\x07")


def test_an_update_is_operations_3_and_4_with_one_seqval_command_and_mask(lab: Lab) -> None:
    """D, M."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    with lab.database.transaction() as t:
        t.update("Persons", everyone, lambda row: {"LastName": "Roe"})
    lab.scan()
    before, after = lab.changes()[1:]
    assert (before["__$operation"], after["__$operation"]) == (3, 4)
    assert (before["LastName"], after["LastName"]) == ("Lee", "Roe")
    for column in ("__$start_lsn", "__$seqval", "__$command_id", "__$update_mask"):
        assert before[column] == after[column]
    assert after["__$update_mask"] == b"\x04"


def test_an_update_to_the_same_value_leaves_no_row(lab: Lab) -> None:
    """Unverified on a real server: depends on what is logged."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    with lab.database.transaction() as t:
        t.update("Persons", everyone, lambda row: {"LastName": row["LastName"]})
    lab.scan()
    assert [c["__$operation"] for c in lab.changes()] == [2]
    assert len(lab.entries()) == 1


def test_a_key_update_of_one_row_is_a_delete_and_an_insert_with_one_seqval_and_consecutive_commands(lab: Lab) -> None:
    """KB 238254; Z."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    with lab.database.transaction() as t:
        t.update("Persons", everyone, lambda row: {"ID": 2})
    lab.scan()
    deleted, inserted = lab.changes()[1:]
    assert brief(deleted) == (1, 1, 1)
    assert brief(inserted) == (2, 2, 2)
    assert deleted["__$seqval"] == inserted["__$seqval"]
    assert deleted["__$start_lsn"] == inserted["__$start_lsn"]


def test_a_key_update_of_several_rows_is_all_deletes_then_all_inserts_each_with_its_seqval(lab: Lab) -> None:
    """KB 238254; Z."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1), person(2))
    with lab.database.transaction() as t:
        t.update("Persons", everyone, lambda row: {"ID": row["ID"] + 1})
    lab.scan()
    changes = lab.changes()[2:]
    assert [brief(c) for c in changes] == [(1, 1, 1), (1, 1, 2), (2, 2, 2), (2, 2, 3)]
    assert len({c["__$seqval"] for c in changes}) == 4


def test_a_change_of_a_unique_indexs_column_is_a_key_update(lab: Lab) -> None:
    """KB 238254."""
    lab.database.define("Mails", {"ID": INT, "Mail": INT, "Note": INT}, key=["ID"], unique=["Mail"])
    lab.enable("Mails")
    with lab.database.transaction() as t:
        t.insert("Mails", {"ID": 1, "Mail": 10, "Note": 0})
        t.update("Mails", everyone, lambda row: {"Mail": 11})
        t.update("Mails", everyone, lambda row: {"Note": 1})
    lab.scan()
    assert [c["__$operation"] for c in lab.changes("dbo_Mails")] == [2, 1, 2, 3, 4]


def test_an_update_that_sets_the_key_to_itself_is_an_update_in_place(lab: Lab) -> None:
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
        t.update("Persons", everyone, lambda row: {"ID": 1, "LastName": "Roe"})
    lab.scan()
    assert [c["__$operation"] for c in lab.changes()] == [2, 3, 4]


def test_commands_of_a_transaction_are_numbered_over_all_its_tables(lab: Lab) -> None:
    """D: `__$command_id` tracks the order of operations within a transaction."""
    lab.enable()
    lab.enable("Notes")
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
        t.insert("Notes", {"ID": 1})
        t.insert("Persons", person(2))
    lab.scan()
    assert [c["__$command_id"] for c in lab.changes()] == [1, 3]
    assert [c["__$command_id"] for c in lab.changes("dbo_Notes")] == [2]
    (lsn,) = {c["__$start_lsn"] for c in (*lab.changes(), *lab.changes("dbo_Notes"))}
    assert lab.call("fn_cdc_get_max_lsn") == lsn


def test_max_columns_are_null_before_an_update_that_leaves_them_alone(lab: Lab) -> None:
    """D, M: operation 3 only; the after image and a delete keep the value."""
    lab.enable("Notes")
    with lab.database.transaction() as t:
        t.insert("Notes", {"ID": 1, "Title": "a", "Doc": "long"})
        t.update("Notes", everyone, lambda row: {"Title": "b"})
        t.update("Notes", everyone, lambda row: {"Doc": "longer"})
        t.delete("Notes", everyone)
    lab.scan()
    docs = [(c["__$operation"], c["Doc"]) for c in lab.changes("dbo_Notes")]
    assert docs == [(2, "long"), (3, None), (4, "long"), (3, "long"), (4, "longer"), (1, "longer")]


def test_text_columns_are_null_in_deletes_and_before_updates(lab: Lab) -> None:
    """D: text, ntext and image."""
    lab.enable("Notes")
    with lab.database.transaction() as t:
        t.insert("Notes", {"ID": 1, "Old": "x"})
        t.update("Notes", everyone, lambda row: {"Old": "y"})
        t.delete("Notes", everyone)
    lab.scan()
    assert [(c["__$operation"], c["Old"]) for c in lab.changes("dbo_Notes")] == [
        (2, "x"),
        (3, None),
        (4, "y"),
        (1, None),
    ]


def test_computed_columns_are_always_null(lab: Lab) -> None:
    """D."""
    lab.database.define("Sums", {"ID": INT, "Twice": INT}, key=["ID"], computed=["Twice"])
    lab.enable("Sums")
    with lab.database.transaction() as t:
        t.insert("Sums", {"ID": 1, "Twice": 2})
    lab.scan()
    assert lab.changes("dbo_Sums")[0]["Twice"] is None


def test_the_mask_of_more_than_eight_columns_has_its_lowest_ordinals_in_the_last_byte(lab: Lab) -> None:
    """D, M; Debezium PR #8064 is the bug of reading it the other way."""
    columns = {f"C{number}": INT for number in range(1, 11)}
    lab.database.define("Wide", columns, key=["C1"])
    lab.enable("Wide")
    with lab.database.transaction() as t:
        t.insert("Wide", dict.fromkeys(columns, 0))
        t.update("Wide", everyone, lambda row: {"C2": 1})
        t.update("Wide", everyone, lambda row: {"C10": 1})
    lab.scan()
    masks = [c["__$update_mask"] for c in lab.changes("dbo_Wide")]
    assert masks == [b"\x03\xff", b"\x00\x02", b"\x00\x02", b"\x02\x00", b"\x02\x00"]


def test_an_update_of_columns_that_are_not_captured_leaves_no_row(lab: Lab) -> None:
    """Judged: the reader of the log passes on captured columns only."""
    lab.enable(captured_column_list="ID, FirstName", supports_net_changes=0)
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
        t.update("Persons", everyone, lambda row: {"LastName": "Roe"})
    lab.scan()
    assert [c["__$operation"] for c in lab.changes()] == [2]
    assert "LastName" not in lab.changes()[0]


@pytest.mark.parametrize("value", [b"\x00\xff", 3.5, "6.3230", 2**63 - 1, "\U0001f600", None])
def test_values_pass_through_the_log_as_they_are(lab: Lab, value: object) -> None:
    """Sources of the storage forms: sqltypes.py."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", {"ID": 1, "FirstName": value, "LastName": "x"})
    lab.scan()
    assert lab.changes()[0]["FirstName"] == value
