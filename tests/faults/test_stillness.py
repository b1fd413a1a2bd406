"""How long tables stood still, and what was said meanwhile, made out from times alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from common.names import TableName
from common.observability.health import HealthEndpoint
from common.observability.health_settings import HealthSettings
from dstream.demo.processes import Service
from tests.worlds.ports import free_port
from tests.worlds.stillness import HealthWatch, Heard, Life, Reign, Stillness, Word, logged, stillnesses
from tests.worlds.world import wait_until

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


def heard(*words: Word, reigns: Sequence[Reign] = (), lives: Sequence[Life] = ()) -> Heard:
    return Heard({ORDERS: "shop.orders.events"}, words, reigns, lives)


def test_only_what_was_said_meanwhile_counts() -> None:
    words = [Word(at, "ingester-0", "table failed, retrying table=dbo.Orders") for at in (9.0, 10.0, 15.0, 21.0)]
    assert [word.at for word in heard(*words).known(Stillness(ORDERS, 10, 20))] == [10.0, 15.0]


@pytest.mark.parametrize(
    ("who", "text", "counts"),
    [
        ("owner", "table failed, retrying [ingester] table=dbo.Orders error=...", True),
        ("owner", "table failed, retrying [ingester] table=dbo.OrdersOfOld", False),
        ("owner", "table failed, retrying [ingester] table=sales.dbo.Orders", False),
        ("owner", "the queue refuses messages, all tables wait [ingester.queue_gate]", True),
        ("owner", "Service Bus throttles", False),
        ("owner", "readyz: an ailment of its own", True),
        ("owner", "readyz: starting: SQL Server, the locks and the queue have not all answered yet", False),
        ("owner", "readyz: no answer", False),
        ("other", "readyz: an ailment of its own", False),
        ("other", "connection to SQL Server lost, retrying", False),
        ("other", "table failed, retrying [ingester] table=dbo.Orders", True),
        ("router", "topic unavailable topic=shop.orders.events", True),
        ("router", "topic unavailable topic=shop.customers.events", False),
        ("router", "receiving interrupted error='opening a receiver for ingest-queue: ...'", True),
        ("router", "readyz: starting: not all links are open yet", False),
        ("router", "worker died; starting it again", False),
    ],
)
def test_a_word_counts_that_names_the_table_or_says_that_all_of_its_owner_wait(
    who: str, text: str, counts: bool
) -> None:
    said = heard(Word(50, who, text), reigns=[Reign(ORDERS.key, "owner", 0, 200)])
    assert said.silences([Stillness(ORDERS, 1, 100)]) == ([] if counts else [Stillness(ORDERS, 1, 100)])


def test_what_an_owner_said_before_it_was_killed_tells_nothing_of_the_next() -> None:
    reigns = [Reign(ORDERS.key, "a", 0, 70), Reign(ORDERS.key, "b", 80, 200)]
    said = heard(Word(50, "a", "table failed, retrying table=dbo.Orders"), reigns=reigns)
    assert said.silences([Stillness(ORDERS, 1, 170)]) == [Stillness(ORDERS, 80, 170)]


def test_a_table_that_nobody_has_is_waited_for_as_long_as_an_ingester_is_up_that_could_take_it() -> None:
    still = Stillness(ORDERS, 0, 200)
    young = [Life("a", 0, 30, 40), Life("b", 50, 80, 90), Life("c", 100, 130, 140), Life("router", 0, 0, 200)]
    assert heard(lives=young).silences([still]) == []
    assert heard(lives=[*young, Life("d", 60, 135, 200)]).silences([still]) == [still]


def test_what_lasts_and_nobody_speaks_of_is_told_apart() -> None:
    short, long, silent = Stillness(ORDERS, 10, 20), Stillness(ORDERS, 100, 190), Stillness(ORDERS, 200, 290)
    said = heard(Word(150.0, "a", "readyz: a slice is out"), reigns=[Reign(ORDERS.key, "a", 0, 300)])
    assert said.silences([silent, long, short]) == [silent]
    told = said.summary([silent, long, short]).splitlines()
    assert told[0] == "longest time that a table stood still: 90.0 s"
    assert told[1] == "longer than 60 s: 2; without a word: 1"
    assert [line.split(": ", 1)[1] for line in told if "readyz" in line] == ["readyz: a slice is out"]


def test_warnings_and_errors_are_read_from_a_log(tmp_path: Path) -> None:
    service = Service("ingester", tmp_path / "no.hcl", {}, tmp_path / "log")
    assert logged(service, "i") == []
    service.log.write_text(
        "2026-01-01T00:00:00.500000Z [info     ] started [ingester] table=a\n"
        "2026-01-01T00:00:01.500000Z [warning  ] table failed, retrying [ingester] table=a\n"
        "no line of the log\n"
        "2026-01-01T00:00:02Z [error    ] stopped [ingester]\n"
    )
    [warning, error] = logged(service, "i")
    assert (warning.text, error.at - warning.at) == ("table failed, retrying [ingester] table=a", 0.5)


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
    with HealthWatch(lambda: [("gone", f"127.0.0.1:{free_port()}"), ("ingester-0", f"127.0.0.1:{port}")]) as watch:
        wait_until(lambda: watch.asked >= 2, "it asks")
        assert not any(word.who == "ingester-0" for word in watch.words)
        ailments["ready"] = "a slice is out"
        wait_until(lambda: any(word.who == "ingester-0" for word in watch.words), "it hears")
    assert {life.who: life.up < life.begin + 60 for life in watch.lives()} == {"gone": False, "ingester-0": True}
    assert [str(word).partition(" ")[2] for word in watch.words if word.who == "ingester-0"][:1] == [
        "ingester-0: readyz: a slice is out"
    ]
    assert {word.text for word in watch.words if word.who == "gone"} == {"healthz: no answer", "readyz: no answer"}
