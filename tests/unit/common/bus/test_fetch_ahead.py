"""How much is fetched ahead, by what messages weigh."""

from __future__ import annotations

import pytest

from common.bus.fetch_ahead import FIRST, FetchAhead

MB = 1_048_576


@pytest.mark.parametrize(
    ("largest", "credit"), [(1_000, 200), (20_000, 200), (40_000, 104), (200_000, 20), (5 * MB, 1), (100 * MB, 1)]
)
def test_what_is_fetched_ahead_fits_into_its_share_and_is_one_message_at_least(largest: int, credit: int) -> None:
    ahead = FetchAhead(200, 4 * MB)
    ahead.saw(largest)
    assert ahead.credit() == credit


@pytest.mark.parametrize(("share", "first"), [(4 * MB, 16), (100 * MB, FIRST), (1_000, 1)])
def test_a_session_starts_with_few_since_nothing_is_known_of_its_messages(share: int, first: int) -> None:
    ahead = FetchAhead(200, share)
    assert ahead.first() == first
    ahead.saw(100)
    assert ahead.first() == min(first, ahead.credit())
    assert FetchAhead(5, share).first() == min(5, first)


def test_a_session_starts_with_no_more_than_sizes_allow_that_others_have() -> None:
    ahead = FetchAhead(200, 4 * MB)
    ahead.saw(2 * MB)
    assert ahead.first() == 2


def test_large_messages_count_at_once_and_are_forgotten_when_none_come() -> None:
    ahead = FetchAhead(200, 4 * MB)
    ahead.saw(1_000)
    ahead.saw(4 * MB)
    assert ahead.credit() == 1
    credits = []
    for _ in range(200):
        ahead.saw(1_000)
        credits.append(ahead.credit())
    assert credits == sorted(credits)
    assert credits[-1] == 200


def test_without_a_bound_everything_is_as_asked_for() -> None:
    ahead = FetchAhead(200)
    assert (ahead.first(), ahead.credit()) == (200, 200)
