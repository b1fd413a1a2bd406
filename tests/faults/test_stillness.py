"""How long tables stood still, and what was said meanwhile, made out from times alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.health import HealthEndpoint
from common.health_settings import HealthSettings
from common.names import TableName
from dstream.demo.processes import Service
from tests.faults.stillness import HealthWatch, Stillness, Word, known, logged, stillnesses, summary, unknown
from tests.faults.world import free_port, wait_until

ORDERS = TableName("dbo", "Orders")


def spans(committed: list[float], arrived: list[float], now: float = 100.0) -> list[tuple[float, float]]:
    return [(each.begin, each.end) for each in stillnesses(ORDERS, committed, arrived, now)]


@pytest.mark.parametrize(
    ("committed", "arrived", "expected"),
    [
        ([], [], []),
        ([1], [4], [(1, 4)]),
        ([1, 2], [4, 9], [(1, 4), (4, 9)]),
        ([1, 8], [4, 9], [(1, 4), (8, 9)]),
        ([1, 2, 3], [4, 4, 4], [(1, 4)]),
        ([1, 2], [4], [(1, 4), (4, 100)]),
        ([1, 50], [4], [(1, 4), (50, 100)]),
        ([1], [], [(1, 100)]),
        ([2], [1], []),  # the subscriber was told before the application
    ],
)
def test_a_table_stands_still_from_what_came_last_or_was_committed_to_what_comes_next(
    committed: list[float], arrived: list[float], expected: list[tuple[float, float]]
) -> None:
    assert spans(committed, arrived) == expected


def test_only_what_was_said_meanwhile_counts() -> None:
    words = [Word(at, "ingester-0", "") for at in (9.0, 10.0, 15.0, 21.0)]
    assert [word.at for word in known(Stillness(ORDERS, 10, 20), words)] == [10.0, 15.0]


def test_what_lasts_and_nobody_speaks_of_is_told_apart() -> None:
    short, long, silent = Stillness(ORDERS, 10, 20), Stillness(ORDERS, 100, 190), Stillness(ORDERS, 200, 290)
    words = [Word(150.0, "ingester-0", "readyz: a slice is out"), Word(120.0, "ingester-1", "readyz: no answer")]
    assert unknown([silent, long, short], words) == [silent]
    told = summary([silent, long, short], words).splitlines()
    assert told[0] == "longest time that a table stood still: 90.0 s"
    assert told[1] == "longer than 60 s: 2, of which nobody said a word: 1"
    assert [line.split(": ", 1)[1] for line in told if "readyz" in line] == [
        "readyz: a slice is out",
        "readyz: no answer",
    ]


def test_warnings_and_errors_are_read_from_a_log(tmp_path: Path) -> None:
    service = Service("ingester", tmp_path / "no.hcl", {}, tmp_path / "log")
    assert logged(service, "i") == []
    service.log.write_text(
        "2026-01-01T00:00:00.500000Z [info     ] started [ingester] table=a\n"
        "2026-01-01T00:00:01.500000Z [warning  ] will try again [ingester] table=a\n"
        "no line of the log\n"
        "2026-01-01T00:00:02Z [error    ] stopped [ingester]\n"
    )
    [warning, error] = logged(service, "i")
    assert (warning.text, error.at - warning.at) == ("will try again [ingester] table=a", 0.5)


@pytest.fixture
def page() -> Iterator[tuple[int, dict[str, str | None]]]:
    ailments: dict[str, str | None] = {"alive": None, "ready": None}
    port = free_port()
    with HealthEndpoint(
        HealthSettings(port=port, host="127.0.0.1"),
        alive=lambda: ailments["alive"],
        ready=lambda: ailments["ready"],
        samples=list,
    ):
        yield port, ailments


def test_what_a_health_page_says_is_kept(page: tuple[int, dict[str, str | None]]) -> None:
    port, ailments = page
    with HealthWatch(lambda: [("gone", free_port()), ("ingester-0", port)]) as watch:
        wait_until(lambda: watch.asked >= 2, "it asks")
        assert not any(word.who == "ingester-0" for word in watch.words)
        ailments["ready"] = "a slice is out"
        wait_until(lambda: any(word.who == "ingester-0" for word in watch.words), "it hears")
    assert [str(word).partition(" ")[2] for word in watch.words if word.who == "ingester-0"][:1] == [
        "ingester-0: readyz: a slice is out"
    ]
    assert {word.text for word in watch.words if word.who == "gone"} == {"healthz: no answer", "readyz: no answer"}
