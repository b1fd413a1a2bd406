"""A backlog on a namespace of 1,000 credits a second: nothing lost, all in order, no storm of retries, and the credits used.

The short form holds what a busy machine cannot disturb; the long one (`-m soak`), for a quiet one, that credits are used and the pace that they
allow is kept (docs/measurements/router.md, "Throttled").
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.throttled import KEYS, Run, run

TABLES = 4


def complete(ended: Run) -> None:
    """Everything once, in the order of each session; offsets at the end, and never before what was sent."""
    for table in ended.tables:
        expected, arrived = table.identities(), ended.arrived[table.name]
        assert sorted(arrived) == sorted(expected)
        for lane in range(KEYS):
            mine = expected[lane::KEYS]
            assert [each for each in arrived if each in set(mine)] == mine
        assert (table.stored, table.early) == (table.rows[-1], [])


def calm(ended: Run, workers: int = 1) -> None:
    """No storm: a link that sends is refused a few times a second, and each process tells of it once, if it is refused at all.

    The ingester and each worker have a link a table. A link's waits are 0.25 s, 0.5 s and then 1 s on average: about 2 refusals in the first
    second of a row and 1 in each that follows. Chance makes it more in a single second, but hardly 4 of all links together.
    """
    figures, links = ended.figures(), TABLES * (1 + workers)
    assert figures["refused a second"] <= 2 * links
    assert figures["refused, busiest second"] <= 4 * links
    assert ended.starved() == []
    assert ended.said.count("Service Bus throttles ") <= workers


@pytest.mark.parametrize("pack", [1, "max"])
def test_a_backlog_goes_through_whole_in_order_and_without_a_storm(tmp_path: Path, pack: int | str) -> None:
    ended = run(tmp_path, 1_000, pack=pack, tables=TABLES)
    complete(ended)
    calm(ended)


@pytest.mark.soak
@pytest.mark.parametrize("pack", [1, 100, "max"])
@pytest.mark.timeout(600)
def test_the_rate_is_what_the_credits_allow(tmp_path: Path, pack: int | str) -> None:
    ended = run(tmp_path, 16_000, pack=pack, tables=TABLES, workers=2)
    complete(ended)
    calm(ended, workers=2)
    figures = ended.figures()
    assert figures["credits used, steady"] > 0.85, figures
    assert figures["changes/s"] > 0.85 * figures["changes/s that the credits allow"], figures
    assert figures["longest wait of a table, s"] < 40, figures
    assert ended.failed() == []
    assert ended.said.count("Service Bus throttles ") == ended.said.count("[warning") == 2
