"""What the console's view costs with many tables, in milliseconds of processor time: a page of metrics, and a look put together.

The stores are left out: what they are asked costs them a request for each hundred tables (see `dstream status`). `python bench/console.py`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from common.bus.depths import Depth
from common.names import TableName
from common.observability.metrics import exposition, readings
from desk.watching.entities import Topics
from desk.watching.overview import Console
from desk.watching.scraping import NAMES, Scraped, judged
from desk.watching.stores import Names, SeenTables
from desk.watching.watch import Questions, StoresWatching
from ingester.commands.status import TableStatus
from ingester.operating.moving import Held
from ingester.operating.offset_desk import Count, Lag
from ingester.watch.capture_watch import CaptureFigures
from ingester.watch.metrics import samples
from ingester.watch.stats import IngesterStats, Standing

_ROUNDS = 5


def cost(what: str, work: Callable[[], object]) -> None:
    """The best of some rounds: the machine may do other work."""
    found = []
    for _ in range(_ROUNDS):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    print(f"{what}: {1000 * min(found):.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1000)
    count = parser.parse_args().tables
    names = [TableName("dbo", f"T{number}") for number in range(count)]
    stats = IngesterStats(names)
    stats.connected(True)
    for name in names:
        stats.stands(name, Standing.READ)
    text = exposition(samples(stats, CaptureFigures())).decode()
    cost(
        f"an ingester writes its metrics ({len(text):,} characters)",
        lambda: exposition(samples(stats, CaptureFigures())),
    )
    cost("the console reads them", lambda: list(readings(text, NAMES)))
    scraped = judged("ingester:8080", list(readings(text, NAMES)), ready=True, alive=True, text="")
    watching = StoresWatching(_questions(names, lambda: [scraped]), _CONSOLE)
    while len(watching.tables()) < count:
        watching.turn()
        time.sleep(0.01)
    cost(f"a look at {count:,} tables is put together", watching._composed)


_CONSOLE = Console(Names("db-1", "shop", "ns.servicebus.windows.net", "ingest"), "0", changes_allowed=False)


def _questions(names: list[TableName], scraped: Callable[[], list[Scraped]]) -> Questions:
    places = [f"db-1.shop.{name.table.lower()}.events" for name in names]
    topics = Topics(
        {"default": {place: [Depth(place, "sub1", 1, 0)] for place in places}},
        {"default": places},
        {name.key.lower(): [("default", place)] for name, place in zip(names, places, strict=True)},
        ["sub1"],
    )
    tables = [
        TableStatus(
            name.key,
            Held.HELD,
            "spark-1:7",
            3,
            "after LSN 0x00",
            "00",
            lag=Lag(Count(3), 2.0),
            headroom=1e5,
            retention=259_200.0,
        )
        for name in names
    ]
    return Questions(
        lambda unread: SeenTables(tables, {"spark-1:7": len(names)}),
        lambda unread: Depth("ingest", None, 1, 0),
        lambda unread: topics,
        lambda unread: None,
        lambda unread: scraped(),
    )


if __name__ == "__main__":
    main()
