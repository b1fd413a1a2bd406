"""How much of a group goes at once, and how long a lock has to last for it."""

from __future__ import annotations

import pytest

from common.message import Message, weight
from router.chunks import LEAST, RESERVE, leading, narrower, reserve, together, wider
from router.routes import Group
from tests.fakes.bus import FakeDelivery, Held


def group(*sizes: int) -> Group:
    messages = [Message(b"x" * size, f"m{number}") for number, size in enumerate(sizes)]
    return Group("orders", tuple(FakeDelivery(Held(message)) for message in messages))


def sizes(found: Group | None) -> list[int]:
    return [] if found is None else [len(delivery.message.body) for delivery in found.deliveries]


EACH = weight(Message(b"", "m0"))


@pytest.mark.parametrize(
    ("given", "most", "first", "rest"),
    [
        ([100] * 4, 2 * (100 + EACH), [100] * 2, [100] * 2),
        ([100] * 4, 3 * (100 + EACH) - 1, [100] * 2, [100] * 2),
        ([100] * 4, 1_000_000, [100] * 4, []),
        ([9_000, 100], 1_000, [9_000], [100]),  # one at least, however large
        ([100, 9_000, 100], 1_000, [100], [9_000, 100]),
    ],
)
def test_a_chunk_is_as_many_as_fit_and_one_at_least(
    given: list[int], most: int, first: list[int], rest: list[int]
) -> None:
    found, behind = leading(group(*given), most)
    assert (sizes(found), sizes(behind)) == (first, rest)


def test_all_chunks_together_are_the_group_in_its_order() -> None:
    whole = group(*range(100, 200))
    rest: Group | None = whole
    joined: Group | None = None
    while rest is not None:
        first, rest = leading(rest, 2_000)
        joined = together(joined, first)
    assert joined == whole
    assert together(whole, None) == whole


@pytest.mark.parametrize(
    ("left", "kept"), [(60.0, RESERVE), (300.0, RESERVE), (40.0, 10.0), (2.5, 0.625), (0.0, 0.0), (-5.0, 0.0)]
)
def test_a_lock_has_to_last_for_an_answer_or_for_a_quarter_of_itself_where_it_is_short(
    left: float, kept: float
) -> None:
    assert reserve(left) == kept


def test_chunks_get_smaller_until_they_get_through_and_large_again_afterwards() -> None:
    chunk, tried = 1_048_576, []
    for _ in range(8):
        tried.append(chunk)
        chunk = narrower(chunk)
    assert tried[:3] == [1_048_576, 524_288, 262_144]
    assert chunk == LEAST
    for _ in range(8):
        chunk = wider(chunk, 260_096)
    assert chunk == 260_096
