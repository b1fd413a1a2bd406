"""A version never falls when positions rise, and a document's next version stays in its band."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from router.outputs.elasticsearch.versions import above, same_band, version_of
from router.outputs.rows.position import Position

_LSN = st.one_of(
    st.binary(min_size=10, max_size=10),
    st.builds(
        lambda file, block, slot: file.to_bytes(4, "big") + block.to_bytes(4, "big") + slot.to_bytes(2, "big"),
        st.integers(50, 53),
        st.integers(100, 300),
        st.integers(0, 3),
    ),
).map(bytes.hex)
POSITIONS = st.builds(Position, _LSN, st.integers(0, 2**31 - 1), _LSN, st.integers(0, 4))


@given(one=POSITIONS, other=POSITIONS)
def test_a_version_never_falls_when_positions_rise(one: Position, other: Position) -> None:
    low, high = sorted([one, other])
    assert 0 <= version_of(low) <= version_of(high) < 2**63


def test_changes_of_one_commit_share_a_band_and_64_blocks_later_is_another() -> None:
    one = Position("0000003600000b200003", 1, "0000003600000b200002", 2)
    assert version_of(one) == 0x3600000B00
    assert same_band(version_of(one), version_of(one._replace(command_id=7, operation_id=1)) + 5)
    assert not same_band(version_of(one), version_of(one._replace(lsn="0000003600000b400003")))


@given(position=POSITIONS, bumps=st.integers(0, 200))
def test_the_next_version_is_above_the_present_one_and_stays_in_the_band(position: Position, bumps: int) -> None:
    current = version_of(position)
    for _ in range(bumps):
        version, kind = above(current, position)
        assert same_band(version, current)
        assert (version > current, kind) in ((True, "external"), (False, "external_gte"))
        current = version


def test_a_version_far_below_is_passed_at_once() -> None:
    position = Position("0000003600000b200003", 1, "0000003600000b200002", 2)
    assert above(3, position) == (0x3600000B00, "external")
