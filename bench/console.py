"""What the console costs: its own work with many tables, and the throughput of a loaded pipeline beside it.

    .venv/bin/python -m bench.console [--part views] [--part load] [--tables 1000] [--seconds 15] [--rounds 4]

`views`: milliseconds of processor time with `--tables` tables: a page of metrics, and a look put together. The stores are left out.
`load`: messages/s and processor time of a pipeline on the emulators that always has work, without a console and with one whose page is open,
in windows of `--seconds`, four a round (bench/operating/beside.py): medians and quartiles. About eight minutes in all; the last line is JSON with
the figures of `load`. Linux only.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.operating.beside import compared
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
from ingester.watch.figures import Standing
from ingester.watch.metrics import samples
from ingester.watch.stats import IngesterStats

_ROUNDS = 5
_BUSY, _IDLE = 4, 16
"""Tables of `load`: those with changes, and those beside."""


def cost(what: str, work: Callable[[], object]) -> float:
    """The best of some rounds: the machine may do other work."""
    found = []
    for _ in range(_ROUNDS):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    print(f"{what}: {1000 * min(found):.0f} ms")
    return round(1000 * min(found), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("views", "load"), help="one of them only")
    parser.add_argument("--tables", type=int, default=1000, help="of views")
    parser.add_argument("--seconds", type=float, default=15, help="of a window")
    parser.add_argument("--rounds", type=int, default=4, help="of four windows")
    chosen = parser.parse_args()
    if chosen.part != "load":
        print(json.dumps(views(chosen.tables)))
    if chosen.part != "views":
        with tempfile.TemporaryDirectory() as folder:
            found = compared(Path(folder), seconds=chosen.seconds, rounds=chosen.rounds, busy=_BUSY, idle=_IDLE)
        rounded = {name: round(value, 2) for name, value in found.items()}
        for name, value in rounded.items():
            print(f"{name:44} {value:,}")
        print(json.dumps(rounded))


def views(count: int) -> dict[str, float]:
    """Milliseconds of processor time with `count` tables, printed."""
    names = [TableName("dbo", f"T{number}") for number in range(count)]
    stats = IngesterStats(names)
    stats.connected(True)
    for name in names:
        stats.stands(name, Standing.READ)
    text = exposition(samples(stats, CaptureFigures())).decode()
    writes = cost(
        f"an ingester writes its metrics ({len(text):,} characters)",
        lambda: exposition(samples(stats, CaptureFigures())),
    )
    reads = cost("the console reads them", lambda: list(readings(text, NAMES)))
    scraped = judged("ingester:8080", list(readings(text, NAMES)), ready=True, alive=True, text="")
    watching = StoresWatching(_questions(names, lambda: [scraped]), _CONSOLE)
    while len(watching.tables()) < count:
        watching.turn()
        time.sleep(0.01)
    composes = cost(f"a look at {count:,} tables is put together", watching._composed)
    of = f"metrics of {count:,} tables"
    return {f"{of} are written": writes, f"{of} are read": reads, f"a look at {count:,} tables": composes}


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
