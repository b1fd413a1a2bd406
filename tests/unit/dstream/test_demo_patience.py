"""How long the demo waits for what has not arrived: a slow machine must not make it say that something is lost."""

from __future__ import annotations

from dstream.demo.show import Patience


def test_the_wait_begins_again_with_each_arrival() -> None:
    patience = Patience(0.0)
    assert [patience.over(arrived, 100.0 * arrived) for arrived in range(1, 9)] == [False] * 8
    assert (patience.over(8, 919.0), patience.over(8, 920.0)) == (False, True)


def test_before_the_first_arrival_it_is_longer() -> None:
    patience = Patience(0.0)
    assert (patience.over(0, 299.0), patience.over(0, 300.0)) == (False, True)
