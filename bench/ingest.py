"""How fast the ingester drains a backlog, where its time goes, and what the public driver and SDK would reach; on the emulators.

    .venv/bin/python bench/ingest.py [--quick] [--part backlog] [--rows 200000] [--tables 1 4 16]

`backlog`: changes/s of `dstream ingester` from its first commit to its last, 10 mixed columns, everything (Spark, both emulators) on the
same cores; the same work in one worker-like process without Spark, stage by stage; and the ceilings. A ceiling is what the public driver (fetch,
commit), orjson (encode) and the public SDK (send) reach with nothing else to do, in as many processes at once as the ingester may use for
that many tables, on the same emulators: the mean of what is seen just before the ingester runs and just after. `ratio_to_ceiling` is the
whole ingester's rate by the lowest of the four; what the driver reads unconverted is beside it. A table may be spread over more processes.
`idle`: 1,000 idle tables; statements a pass, processor time of driver and server a second. `lag`: from an active table's commit to its
message in the ingest queue, beside idle tables.
The last line is JSON with the same figures. About ten minutes; `--quick` two. Linux only.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

from bench.ingestion import idle, stages
from bench.ingestion.ground import Ground
from bench.ingestion.whole import SLOTS, Ingester, draining
from common.bus.ports import QueueNeed
from common.names import TableName
from common.servicebus.provision import provision

Figures = dict[str, Any]


def backlog(ground: Ground, folder: Path, counts: Sequence[int], rows: int) -> Figures:
    """For each number of tables: the stages of a worker, then the ingester between two looks at the ceilings."""
    figures: Figures = {}
    for count in counts:
        tables = [ground.table(f"T{count}_{number}") for number in range(count)]
        for table in tables:
            ground.fill(table, rows // count)
        place, name = place_of(ground, f"split-{count}"), f"backlog-{count}"
        apart, product = stages.split(place, tables, ahead=False), stages.split(place, tables, ahead=True)
        ground.cursor.execute("DELETE FROM dbo.cdc_offsets")
        before = ceilings(place, tables, apart)
        ingester = Ingester(ground, folder, tables, queue=name)
        with draining(ingester, ground.cursor, tables, rows // count * count) as whole:
            pass
        after = ceilings(place, tables, apart)
        reached = {stage: (before[stage] + after[stage]) / 2 for stage in before}
        lowest = min(stages.CEILINGS, key=lambda stage: reached[stage])
        figures[str(count)] = shown(
            f"{count} tables",
            {
                "changes_s": whole.rate,
                **{f"processor_us_a_change.{part}": spent / rows * 1e6 for part, spent in whole.processor.items()},
                "worker_changes_s": product.changes / product.seconds,
                "worker_changes_s.not_reading_ahead": apart.changes / apart.seconds,
                **{f"worker_us_a_change.{stage}": spent / apart.changes * 1e6 for stage, spent in apart.stages.items()},
                **{f"ceiling_s.{stage}": ceiling for stage, ceiling in reached.items()},
                "slowest_stage": lowest,
                "ratio_to_ceiling": whole.rate / reached[lowest],
                **{f"ratio_to_ceiling.{stage}": whole.rate / ceiling for stage, ceiling in reached.items()},
            },
        )
    return figures


def ceilings(place: stages.Place, tables: Sequence[TableName], found: stages.Split) -> dict[str, float]:
    """Changes/s of each stage's public part, in as many processes as may drain `tables` at once."""
    processes = min(len(tables), SLOTS - 1)
    texts = found.statements[: len(found.statements) // processes + 1]
    sent = stages.messages(place, tables[0])
    return {
        "fetch": together(stages.fetch_ceiling, processes, place, texts),
        "fetch_unconverted": together(stages.plain_ceiling, processes, place, tables[0], stages.PAGE_ROWS),
        "encode": together(stages.encode_ceiling, processes, sent),
        "send": together(stages.send_ceiling, processes, place, sent),
        "commit": found.changes / found.pages * together(stages.commit_ceiling, processes, place, tables[0]),
    }


def together(measure: Callable[..., float], processes: int, *arguments: object) -> float:
    """The sum of what `processes` processes reach at once."""
    with pool_of(processes) as pool:
        return sum(pool.starmap(measure, [arguments] * processes, chunksize=1))


@contextmanager
def pool_of(processes: int) -> Iterator[Pool]:
    """As many processes, all of them up. They begin without a thread or a connection of this one, and with its modules loaded."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bench.ingestion.stages"])
    with context.Pool(processes) as pool:
        pool.map(abs, range(processes))
        yield pool


def place_of(ground: Ground, queue: str) -> stages.Place:
    """Where a stage finds both services; makes its queue."""
    emulators = ground.emulators
    needs = [QueueNeed(queue, sessions=True)]
    provision(ground.bus, needs, how="create", management_endpoint=emulators.management_endpoint)
    return stages.Place(emulators.login, emulators.bus_connection_string, queue)


def shown(title: str, figures: Figures) -> Figures:
    """The figures, printed."""
    print(f"\n{title}")
    rounded = {
        name: round(value, 3 if value < 10 else 0) if isinstance(value, float) else value
        for name, value in figures.items()
    }
    for name, value in rounded.items():
        print(f"{name:44} {value}", flush=True)
    return rounded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("backlog", "idle", "lag"), help="one of them only")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--tables", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--idle-tables", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30, help="of idling, and of the lag's changes")
    parser.add_argument("--quick", action="store_true", help="20,000 rows, 100 idle tables, 10 s")
    chosen = parser.parse_args()
    rows, many, seconds = (20_000, 100, 10.0) if chosen.quick else (chosen.rows, chosen.idle_tables, chosen.seconds)
    parts: dict[str, Callable[[Ground, Path], Figures]] = {
        "backlog": lambda ground, folder: backlog(ground, folder, chosen.tables, rows),
        "idle": lambda ground, folder: shown("idle", idle.idle(ground, folder, many, seconds)),
        "lag": lambda ground, folder: shown("lag", idle.lag(ground, folder, seconds)),
    }
    figures: Figures = {"rows": rows}
    for name in parts if chosen.part is None else [chosen.part]:
        with tempfile.TemporaryDirectory() as folder, Ground() as ground:
            figures[name] = parts[name](ground, Path(folder))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
