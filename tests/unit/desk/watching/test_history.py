"""The last hour: points, holes, memory, and counters that begin again."""

from __future__ import annotations

import sys

from desk.watching.history import Counters, Kept


def test_a_point_each_ten_seconds_with_holes_where_nothing_was_known() -> None:
    kept = Kept(1000.0)
    kept.lags(1000.0, {"dbo.A": 3.0, "dbo.B": None})
    kept.lags(1031.0, {"dbo.A": 5.0, "dbo.B": 9.0})
    of_a = kept.document("dbo.A", 1040.0)
    assert [(point.at, point.value) for point in of_a.lag_seconds] == [
        (1000.0, 3.0),
        (1010.0, None),
        (1020.0, None),
        (1030.0, 5.0),
        (1040.0, None),
    ]
    assert [point.value for point in kept.document(None, 1030.0).lag_seconds] == [3.0, None, None, 9.0]
    assert [point.value for point in kept.document("dbo.C", 1010.0).lag_seconds] == [None, None]


def test_an_hour_is_kept_and_what_is_older_is_overwritten() -> None:
    kept = Kept(0.0)
    for step in range(500):
        kept.queue(step * 10.0, step)
    points = kept.document(None, 4990.0).queue_messages
    assert len(points) == 360
    assert (points[0].value, points[-1].value) == (140.0, 499.0)
    kept.queue(20_000.0, 1)
    assert [point.value for point in kept.document(None, 20_000.0).queue_messages] == [None] * 359 + [1.0]


def test_a_thousand_tables_take_a_few_megabytes() -> None:
    kept = Kept(0.0)
    names = {f"dbo.T{number}": 1.0 for number in range(1000)}
    kept.lags(0.0, names)
    kept.rates(0.0, names)
    lines = [*kept._lags.values(), *kept._rates.values()]
    assert sum(sys.getsizeof(line) + sys.getsizeof(line._values) for line in lines) < 4_000_000
    kept.keep(frozenset(["dbo.T1"]))
    assert kept.of_minute("dbo.T2", 0.0) is None
    assert kept.of_minute("dbo.T1", 0.0) == 1.0


def test_counters_of_processes_add_up_and_a_restarted_one_counts_from_zero() -> None:
    counters = Counters()
    assert counters.rates({"a": {"dbo.A": 100}, "b": {"dbo.A": 10}}, 0.0) == {}
    assert counters.rates({"a": {"dbo.A": 200}, "b": {"dbo.A": 30}}, 10.0) == {"dbo.A": 12.0}
    assert counters.rates({"a": {"dbo.A": 50}, "b": {"dbo.A": 30}}, 20.0) == {"dbo.A": 5.0}
    assert counters.rates({"b": {"dbo.A": 30, "dbo.B": 20}}, 30.0) == {"dbo.A": 0.0, "dbo.B": 2.0}


def test_a_queue_grows_if_it_was_never_empty_for_minutes_and_is_longer_now() -> None:
    def queue(*found: int) -> bool:
        kept = Kept(0.0)
        for step, messages in enumerate(found):
            kept.queue(step * 10.0, messages)
        return kept.grows((len(found) - 1) * 10.0, 300)

    assert queue(*range(1, 31))
    assert not queue(*range(30))
    assert not queue(*range(31, 1, -1))
    assert not queue(1, 2, 3)
