"""The CDC functions. Sources: the function pages (D); measured on SQL Server 2025 (M); the text of the generated functions (T)."""

from __future__ import annotations

import pytest

from emulators.sqlserver.cdc.lsn import LsnSource, decrement, increment
from emulators.sqlserver.cdc.queries.tracking_time import datetime_value
from emulators.sqlserver.results import SqlError, Value
from tests.emulators.sqlserver.unit.cdc.conftest import Lab, person


def committed(lab: Lab, *numbers: int, time: str | None = None) -> list[bytes]:
    """Insert each number in a transaction of its own, capture them, and give their commit LSNs."""
    if time is not None:
        lab.time = time
    for number in numbers:
        with lab.database.transaction() as t:
            t.insert("Persons", person(number))
    lab.scan()
    return [lsn for lsn in (e["start_lsn"] for e in lab.entries()[-len(numbers) :]) if isinstance(lsn, bytes)]


def test_increment_and_decrement_step_over_all_80_bits(lab: Lab) -> None:
    """D, M."""
    assert lab.call("fn_cdc_increment_lsn", bytes(9) + b"\xff") == bytes(8) + b"\x01\x00"
    assert lab.call("fn_cdc_decrement_lsn", bytes(8) + b"\x01\x00") == bytes(9) + b"\xff"
    assert lab.call("fn_cdc_increment_lsn", None) is None
    assert decrement(increment(b"\xff" * 10)) == b"\xff" * 10


def test_a_short_binary_is_padded_on_the_right(lab: Lab) -> None:
    """D: conversion of varbinary to binary(10)."""
    assert lab.call("fn_cdc_increment_lsn", b"\x01") == b"\x01" + bytes(8) + b"\x01"


def test_text_is_no_lsn(lab: Lab) -> None:
    """D: error 257; pymssql sends ASCII bytes as text."""
    with pytest.raises(SqlError) as refused:
        lab.call("fn_cdc_increment_lsn", "ABCDEFGHIJ")
    assert refused.value.number == 257


def test_lsns_grow_through_slots_blocks_and_files() -> None:
    """Ten bytes: virtual log file, block, slot."""
    source = LsnSource()
    lsns = [source.record() for _ in range(70000)] + [source.commit(), source.record()]
    assert lsns == sorted(set(lsns))
    assert lsns[0] == bytes.fromhex("0000002d000001000001")
    assert LsnSource(lsns[-1]).record() > lsns[-1]


def test_min_lsn_is_zeros_for_an_unknown_instance(lab: Lab) -> None:
    """D."""
    assert lab.call("fn_cdc_get_min_lsn", "nothing") == bytes(10)


def test_max_lsn_without_cdc_is_208(lab: Lab) -> None:
    """M."""
    lab.run("sp_cdc_disable_db")
    with pytest.raises(SqlError, match=r"Invalid object name 'cdc\.lsn_time_mapping'\.") as refused:
        lab.call("fn_cdc_get_max_lsn")
    assert refused.value.number == 208


def test_lsn_maps_to_the_end_time_of_its_transaction(lab: Lab) -> None:
    """D."""
    lab.enable()
    (lsn,) = committed(lab, 1, time="2026-02-01 00:00:00.003")
    assert lab.call("fn_cdc_map_lsn_to_time", lsn) == "2026-02-01 00:00:00.003"
    assert lab.call("fn_cdc_map_lsn_to_time", increment(lsn)) is None


@pytest.mark.parametrize(
    ("operator", "time", "expected"),
    [
        ("largest less than", "2026-02-01 00:00:01.000", None),
        ("largest less than", "2026-02-01 00:00:02.000", 1),
        ("largest less than or equal", "2026-02-01T00:00:02", 2),
        ("smallest greater than", "2026-02-01 00:00:01", 2),
        ("smallest greater than or equal", "2026-02-01 00:00:01", 0),
        ("smallest greater than", "2026-02-01 00:00:02", None),
        ("largest less than or equal", None, None),
    ],
)
def test_times_map_to_the_nearest_lsn_and_ties_to_the_outermost(
    lab: Lab, operator: str, time: str | None, expected: int | None
) -> None:
    """D: sys.fn_cdc_map_time_to_lsn. Two transactions end in the first second, one in the second."""
    lab.enable()
    lsns = committed(lab, 1, 2, time="2026-02-01 00:00:01.000") + committed(lab, 3, time="2026-02-01 00:00:02.000")
    found = lab.call("fn_cdc_map_time_to_lsn", operator, time)
    assert found == (None if expected is None else lsns[expected])


def test_an_unknown_relational_operator_is_refused(lab: Lab) -> None:
    with pytest.raises(SqlError, match="relational operator 'nearest'"):
        lab.call("fn_cdc_map_time_to_lsn", "nearest", "2026-02-01")


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2026-02-01", "2026-02-01 00:00:00.000"),
        ("2026-02-01T10:20:30.1234567", "2026-02-01 10:20:30.123"),
        ("2026-02-01 10:20:30.999", "2026-02-01 10:20:31.000"),
        ("2026-02-01 10:20:30.005", "2026-02-01 10:20:30.007"),
    ],
)
def test_tracking_times_are_rounded_as_datetime_is(text: str, stored: str) -> None:
    """D: increments of .000, .003, .007 seconds."""
    assert datetime_value(text) == stored


@pytest.mark.parametrize("value", ["yesterday", "2026-02-30", b"\x00"])
def test_what_is_no_time_is_241(value: Value) -> None:
    with pytest.raises(SqlError) as refused:
        datetime_value(value)
    assert refused.value.number == 241


def test_column_ordinals_are_those_of_the_captured_columns(lab: Lab) -> None:
    """D: NULL for an unknown column or instance."""
    lab.enable(captured_column_list="ID, LastName")
    assert lab.call("fn_cdc_get_column_ordinal", "dbo_Persons", "lastname") == 2
    assert lab.call("fn_cdc_get_column_ordinal", "dbo_Persons", "FirstName") is None
    assert lab.call("fn_cdc_get_column_ordinal", "nothing", "ID") is None


def test_bits_of_a_mask_are_counted_from_its_last_byte(lab: Lab) -> None:
    """D, M."""
    assert lab.call("fn_cdc_is_bit_set", 1, b"\x02\x01") == 1
    assert lab.call("fn_cdc_is_bit_set", 10, b"\x02\x01") == 1
    assert lab.call("fn_cdc_is_bit_set", 2, b"\x02\x01") == 0
    assert lab.call("fn_cdc_is_bit_set", 99, b"\x02\x01") == 0
    assert lab.call("fn_cdc_is_bit_set", None, b"\x02\x01") is None
    lab.enable()
    assert lab.call("fn_cdc_has_column_changed", "dbo_Persons", "FirstName", b"\x02") == 1


def test_all_changes_has_neither_end_lsn_nor_command_id(lab: Lab) -> None:
    """D, M, T."""
    lab.enable()
    function = lab.extension.table_function(lab.database, "cdc", "FN_CDC_GET_ALL_CHANGES_dbo_Persons")
    assert function is not None
    names = [column.name for column in function.columns]
    metadata = ["__$start_lsn", "__$seqval", "__$operation", "__$update_mask"]
    assert names == [*metadata, "ID", "FirstName", "LastName"]


def test_all_changes_leaves_out_the_old_rows_unless_asked(lab: Lab) -> None:
    """T: the option is trimmed and compared without case."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
        t.update("Persons", lambda row: True, lambda row: {"LastName": "Roe"})
    lab.scan()
    bounds = (lab.call("fn_cdc_get_min_lsn", "dbo_Persons"), lab.call("fn_cdc_get_max_lsn"))
    assert [row[2] for row in lab.all_changes("dbo_Persons", *bounds, " ALL ")] == [2, 4]
    assert [row[2] for row in lab.all_changes("dbo_Persons", *bounds, "all update old")] == [2, 3, 4]


def test_all_changes_includes_both_bounds(lab: Lab) -> None:
    """D."""
    lab.enable()
    lsns = committed(lab, 1, 2, 3)
    found = lab.all_changes("dbo_Persons", lsns[0], lsns[1], "all")
    assert [row[4] for row in found] == [1, 2]


@pytest.mark.parametrize("case", ["below", "above", "reversed", "null", "bad option", "null option"])
def test_a_bad_window_or_option_is_error_313_with_its_fixed_text(lab: Lab, case: str) -> None:
    """D, M: severity 16, state 3; the dots stand in the text."""
    lab.enable()
    first, second = committed(lab, 1, 2)
    low = lab.call("fn_cdc_get_min_lsn", "dbo_Persons")
    assert isinstance(low, bytes)
    arguments: dict[str, tuple[Value, Value, Value]] = {
        "below": (decrement(low), second, "all"),
        "above": (first, increment(second), "all"),
        "reversed": (second, first, "all"),
        "null": (None, second, "all"),
        "bad option": (first, second, "everything"),
        "null option": (first, second, None),
    }
    with pytest.raises(SqlError) as refused:
        lab.all_changes("dbo_Persons", *arguments[case])
    assert (refused.value.number, refused.value.severity, refused.value.state) == (313, 16, 3)
    assert refused.value.message == (
        "An insufficient number of arguments were supplied for the procedure or function "
        "cdc.fn_cdc_get_all_changes_ ... ."
    )


def test_a_window_asked_for_before_the_first_capture_is_313(lab: Lab) -> None:
    """Right after enabling, max_lsn lies below min_lsn: readers must guard against it."""
    lab.enable()
    low = lab.call("fn_cdc_get_min_lsn", "dbo_Persons")
    with pytest.raises(SqlError) as refused:
        lab.all_changes("dbo_Persons", low, low, "all")
    assert refused.value.number == 313


def test_functions_of_other_schemas_are_not_ours(lab: Lab) -> None:
    lab.enable()
    assert lab.extension.table_function(lab.database, "dbo", "fn_cdc_get_all_changes_dbo_Persons") is None
    assert lab.extension.table_function(lab.database, "cdc", "fn_other") is None
