"""Where versions do not decide, positions do: an older change is never written over a newer one, and a newer one always is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from router.outputs.elasticsearch.answers import Answer, Fate
from router.outputs.elasticsearch.bulk import Found
from router.outputs.elasticsearch.operations import Operation
from router.outputs.elasticsearch.settling import again
from router.outputs.elasticsearch.versions import Versioned, version_of
from router.outputs.rows.position import Position
from tests.unit.router.outputs.elasticsearch.test_versions import POSITIONS

HERE = Position("0000003600000b200003", 2, "0000003600000b200002", 2)
BASE = version_of(HERE)


def operation(position: Position | None = HERE, *, deletes: bool = False) -> Operation:
    return Operation("1", 0, position, None if deletes else "{}")


def stale(current: int | None) -> Answer:
    return Answer(Fate.STALE, current=current)


def test_a_copy_and_an_older_change_are_not_written() -> None:
    for newer in (HERE, HERE._replace(command_id=3), HERE._replace(lsn="0000003700000b200003")):
        assert again(operation(), stale(BASE), Found(version_of(newer), newer.text)) is None


def test_a_newer_change_of_the_same_band_is_written_above_the_version_that_was_read() -> None:
    older = Found(BASE + 4, HERE._replace(command_id=1).text)
    assert again(operation(), stale(BASE), older) == Versioned(BASE + 5)
    assert again(operation(deletes=True), stale(BASE), older) == Versioned(BASE + 5)
    assert again(operation(), stale(BASE), Found(BASE + 63, older.position)) == Versioned(BASE + 63, "external_gte")


def test_a_document_of_another_program_is_replaced() -> None:
    assert again(operation(), stale(2**62), Found(2**62, None)) == Versioned(2**62 + 1)


def test_a_row_that_was_removed_in_the_same_band_is_inserted_again() -> None:
    assert again(operation(), stale(BASE + 3), None) == Versioned(BASE + 4)
    assert again(operation(), stale(None), None) == Versioned(BASE + 1)


def test_a_row_that_was_removed_later_stays_removed() -> None:
    assert again(operation(), stale(BASE + 64), None) is None
    assert again(operation(deletes=True), stale(BASE), None) is None


def test_what_is_written_once_is_there() -> None:
    assert again(operation(None), stale(None), None) is None


@given(st.lists(st.tuples(POSITIONS, st.booleans()), min_size=1, max_size=12))
def test_whatever_the_order_of_copies_the_newest_change_stands_at_the_end(changes: list[tuple[Position, bool]]) -> None:
    """A server of one document without deletes that are forgotten: marks instead."""
    version, position = -1, None
    for place, _ in changes:
        sent: Versioned | None = Versioned(version_of(place))
        while sent is not None:
            if sent.version > version or (sent.type == "external_gte" and sent.version == version):
                version, position = sent.version, place
                break
            assert position is not None
            sent = again(operation(place), stale(version), Found(version, position.text))
    assert position == max(place for place, _ in changes)
