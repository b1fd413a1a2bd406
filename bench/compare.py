"""Before and after in one sitting: parts of the bench in another checkout and in this one, in turns, with medians and quartiles.

    .venv/bin/python -m bench.compare OTHER_CHECKOUT [--rounds 5] [--parts backlog,start,ours,latency] [--tables 1 4 16 64] [--rows 40000]

Both have their own `.venv`; bench and emulators are always this checkout's, so that only the product differs. Each round runs both, and the next
round the other way round.
`backlog`: `dstream ingester` drains the same backlog: changes/s, processor time of each process a change. `start`: to the first change, and idle
memory. `ours`: stages of a worker (bench/change_cost.py, over the product's own modules: it needs those that it names). `latency`:
bench/queue_latency.py. A part that fails is said and leaves the others; the exit status is 1 then. The last line is JSON. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

from bench import start
from bench.comparison.sides import OtherIngester, Side, both, ground_in, program
from bench.comparison.spread import Compared, compared, text
from bench.ingestion.ground import Ground
from bench.ingestion.whole import draining
from common.names import TableName
from common.servicebus.management import administration
from ingester.spark.kept.archive import OFF, VARIABLE

Figures = dict[str, float]
Round = Callable[[Side], Figures]
_START_ROWS: Final = 100
_SETTLE: Final = 5.0
_QUEUE: Final = "compared"


def in_turns(part: str, sides: tuple[Side, Side], rounds: int, measure: Round) -> list[Compared]:
    """Each round measures both, and begins with the one that came last before."""
    found: dict[str, list[Figures]] = {side.name: [] for side in sides}
    for number in range(rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            figures = measure(side)
            found[side.name].append(figures)
            shown = {name: round(value, 2) for name, value in figures.items()}
            print(f"{part} {number + 1}, {side.name}: {shown}", file=sys.stderr, flush=True)
    before, now = (found[side.name] for side in sides)
    return compared(before, now)


def backlog(sides: tuple[Side, Side], chosen: argparse.Namespace, folder: Path) -> Iterator[Compared]:
    """For each number of tables: the same change tables, drained again and again."""
    for count in chosen.tables:
        rows = chosen.rows // count * count
        with Ground() as ground:
            tables = [ground.table(f"T{number}") for number in range(count)]
            for table in tables:
                ground.fill(table, rows // count)
            name = "1 table" if count == 1 else f"{count} tables"
            one = partial(_drained, ground=ground, folder=folder, tables=tables, rows=rows, name=name)
            yield from in_turns(name, sides, chosen.rounds, one)


def _drained(side: Side, *, ground: Ground, folder: Path, tables: Sequence[TableName], rows: int, name: str) -> Figures:
    """The figures of one backlog."""
    forgotten(ground)
    with draining(OtherIngester(side, ground, folder, tables, _QUEUE), ground.cursor, tables, rows) as done:
        spent = {part: seconds / rows * 1e6 for part, seconds in done.processor.items()}
    client, _ = administration(ground.bus, ground.emulators.management_endpoint)
    with client:
        client.delete_queue(_QUEUE)
    return {
        f"{name}: changes/s": done.rate,
        f"{name}: ours, µs a change": spent["driver"] + spent["jvm"] + spent["workers"],
        f"{name}: ... of which workers": spent["workers"],
        f"{name}: server's emulator, µs a change": spent["sqlserver"],
    }


def forgotten(ground: Ground) -> None:
    """No table has an offset. The table of offsets goes too, since each product makes its own."""
    ground.cursor.execute("IF OBJECT_ID(N'dbo.cdc_offsets', N'U') IS NOT NULL DROP TABLE dbo.cdc_offsets")


def starting(sides: tuple[Side, Side], chosen: argparse.Namespace, folder: Path) -> Iterator[Compared]:
    """From the command to the first change, and idle memory."""
    with Ground() as ground:
        table = ground.table("First")
        ground.fill(table, _START_ROWS)
        numbers = iter(range(1000))

        def one(side: Side) -> Figures:
            forgotten(ground)
            return start.one(ground, folder, side.python, [table], f"start-{next(numbers)}", _SETTLE)

        for side in sides:  # not counted: it fills caches
            one(side)
        yield from in_turns("start", sides, chosen.rounds, one)


def ours(sides: tuple[Side, Side], chosen: argparse.Namespace, folder: Path) -> Iterator[Compared]:
    """A worker's stages."""

    def one(side: Side) -> Figures:
        found = program(side, folder, "bench.change_cost", "--rows", str(chosen.rows // 2), "--rounds", "1")
        stages = {f"a worker's {stage}, µs a change": spent for stage, spent in found["ours"].items()}
        return stages | {"... floor of the whole": found["floor"]["whole"]}

    yield from in_turns("ours", sides, chosen.rounds, one)


def latency(sides: tuple[Side, Side], chosen: argparse.Namespace, folder: Path) -> Iterator[Compared]:
    """From commit to queue."""

    def one(side: Side) -> Figures:
        found = program(side, folder, "bench.queue_latency", "--seconds", "20")
        return {
            f"latency, {part}: {share}, ms": found[part][share] for part in ("own", "whole") for share in ("p50", "p99")
        }

    yield from in_turns("latency", sides, chosen.rounds, one)


PARTS = {"backlog": backlog, "start": starting, "ours": ours, "latency": latency}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare",
        description=(__doc__ or "").splitlines()[0],
        epilog="Five rounds of all parts take about half an hour. Run it on a machine that does nothing else.",
    )
    parser.add_argument("other", type=Path, help="the checkout to compare with; it has its own .venv")
    parser.add_argument("--rounds", type=int, default=5, help="how often both are measured; default: %(default)s")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of %(default)s; default: all")
    parser.add_argument(
        "--tables", type=int, nargs="+", default=[1, 4, 16, 64], help="of each backlog; default: 1 4 16 64"
    )
    parser.add_argument(
        "--rows", type=int, default=40_000, help="of each backlog, of all its tables; default: %(default)s"
    )
    chosen = parser.parse_args()
    asked = chosen.parts.split(",")
    if unknown := [name for name in asked if name not in PARTS]:
        parser.error(f"unknown part: {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    try:
        sides = both(chosen.other.resolve())
    except ValueError as error:
        parser.error(str(error))
    os.environ.setdefault(VARIABLE, OFF)  # another checkout's would be made beside what is measured
    with tempfile.TemporaryDirectory() as made:
        ground_in(Path(made))
        return int(all_parts(asked, sides, chosen, Path(made)))


def all_parts(asked: Sequence[str], sides: tuple[Side, Side], chosen: argparse.Namespace, folder: Path) -> bool:
    """Run them and print what there is, however they end. Whether one has failed."""
    found, failed = list[Compared](), False
    try:
        for name in asked:
            try:
                for each in PARTS[name](sides, chosen, folder):
                    found.append(each)  # each: a later one may fail
            except (Exception, SystemExit) as error:  # whatever it is, the other parts have figures
                failed = True
                print(f"{name} failed: {error!r}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        failed = True
    finally:
        print(text(found))
        print(json.dumps([asdict(each) for each in found]))
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
