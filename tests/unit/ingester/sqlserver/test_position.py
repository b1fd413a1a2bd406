from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingester.sqlserver.position import LogPosition, Lsn, in_the_log
from tests.fakes.ingester import lsn

LSNS = st.binary(min_size=10, max_size=10).map(Lsn)
POSITIONS = st.builds(
    LogPosition, LSNS, st.integers(0, 2**31 - 1), st.binary(min_size=10, max_size=10), st.sampled_from([1, 2, 3, 4])
)


@given(LSNS, LSNS)
def test_lsns_compare_as_unsigned_numbers_of_80_bits(one: Lsn, other: Lsn) -> None:
    assert (one < other) == (int.from_bytes(one.value, "big") < int.from_bytes(other.value, "big"))


def test_an_lsn_with_a_high_first_byte_is_larger_than_one_without() -> None:
    assert Lsn(b"\x7f" + bytes(9)) < Lsn(b"\x80" + bytes(9))


def test_an_lsn_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="10 bytes"):
        Lsn(b"\x00")


def test_commit_lsn_orders_before_command_before_seqval_before_operation() -> None:
    low, high = bytes(10), b"\xff" * 10
    assert LogPosition(lsn(1), 2, high, 4) < LogPosition(lsn(2), 1, low, 1)
    assert LogPosition(lsn(2), 1, high, 4) < LogPosition(lsn(2), 2, low, 1)
    assert LogPosition(lsn(2), 2, low, 4) < LogPosition(lsn(2), 2, high, 1)
    assert LogPosition(lsn(2), 2, high, 1) < LogPosition(lsn(2), 2, high, 2)


@given(POSITIONS)
def test_every_position_lies_between_the_borders_of_its_transaction(position: LogPosition) -> None:
    assert LogPosition.before(position.lsn) < position <= LogPosition.end_of(position.lsn)


def test_hex_is_twenty_lower_case_digits() -> None:
    assert Lsn(bytes.fromhex("0000003600000B200003")).hex == "0000003600000b200003"


def test_a_border_is_shown_by_its_lsn_and_a_row_by_all_that_finds_it() -> None:
    borders = LogPosition.before(lsn(54)), LogPosition.end_of(lsn(54))
    assert [str(border) for border in borders] == ["LSN 0x00000000000000000036"] * 2
    row = LogPosition(lsn(54), 1, bytes(9) + b"\x07", 2)
    assert str(row) == "LSN 0x00000000000000000036, command 1, seqval 0x00000000000000000007, operation 2"


def test_another_sources_position_is_refused() -> None:
    with pytest.raises(TypeError, match="SQL Server's log"):
        in_the_log(17)  # type: ignore[arg-type]
