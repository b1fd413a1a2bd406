from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingester.position import Lsn, Position
from tests.fakes.ingester import lsn

LSNS = st.binary(min_size=10, max_size=10).map(Lsn)
POSITIONS = st.builds(
    Position, LSNS, st.integers(0, 2**31 - 1), st.binary(min_size=10, max_size=10), st.sampled_from([1, 2, 3, 4])
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
    assert Position(lsn(1), 2, high, 4) < Position(lsn(2), 1, low, 1)
    assert Position(lsn(2), 1, high, 4) < Position(lsn(2), 2, low, 1)
    assert Position(lsn(2), 2, low, 4) < Position(lsn(2), 2, high, 1)
    assert Position(lsn(2), 2, high, 1) < Position(lsn(2), 2, high, 2)


@given(POSITIONS)
def test_every_position_lies_between_the_borders_of_its_transaction(position: Position) -> None:
    assert Position.before(position.lsn) < position <= Position.end_of(position.lsn)


def test_hex_is_twenty_lower_case_digits() -> None:
    assert Lsn(bytes.fromhex("0000003600000B200003")).hex == "0000003600000b200003"
