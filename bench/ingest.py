"""How fast the ingester drains a backlog, where its time goes, and what the public driver and SDK would reach; on the emulators.

    .venv/bin/python bench/ingest.py [--quick] [--part backlog] [--rows 200000] [--tables 1 4 16]

`backlog`: changes/s of `dstream ingester` from its first commit to its last, 10 mixed columns, everything (Spark, both emulators) on the
same cores; then the same work in one worker-like process, stage by stage; then the ceilings. A ceiling is what the public driver (fetch,
commit), orjson (encode) and the public SDK (send) reach with nothing else to do, in as many processes at once as the ingester may use for
that many tables, on the same emulators. `ratio_to_ceiling` is the whole ingester's rate by the lowest of the four.
`idle`: 1,000 idle tables; statements a pass, processor time of driver and server a second. `lag`: from an active table's commit to its
message in the ingest queue, beside idle tables.
The last line is JSON with the same figures. About ten minutes; `--quick` one. Linux only.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.ingestion import idle, stages
from bench.ingestion.ground import Ground
from bench.ingestion.whole import SLOTS, Ingester, drained
from common.names import TableName
from common.provision import QueueNeed, provision

Figures = dict[str, Any]


def backlog(ground: Ground, folder: Path, counts: Sequence[int], rows: int) -> Figures:
    """For each number of tables: the ingester, its stages, the ceilings."""
    figures: Figures = {}
    for count in counts:
        tables = [ground.table(f"T{count}_{number}") for number in range(count)]
        for table in tables:
            ground.fill(table, rows // count)
        name = f"backlog-{count}"
        with Ingester(ground, folder, tables, queue=name) as ingester:
            whole = drained(ingester, ground.cursor, tables, rows // count * count)
        ground.cursor.execute("DELETE FROM dbo.cdc_offsets")
        figures[str(count)] = shown(
            f"{count} tables",
            {
                "changes_s": whole.rate,
                **{f"processor_us_a_change.{part}": spent / rows * 1e6 for part, spent in whole.processor.items()},
                **measured_stages(ground, tables, whole.rate),
            },
        )
    return figures


def measured_stages(ground: Ground, tables: Sequence[TableName], rate: float) -> Figures:
    """Of one worker-like process, with the ceilings and `rate`'s ratio to them."""
    place = place_of(ground, f"split-{len(tables)}")
    found = stages.split(place, tables)
    processes = min(len(tables), SLOTS - 1)
    texts = found.statements[: len(found.statements) // processes + 1]
    sent = stages.messages(place, tables[0])
    page = found.changes / found.pages
    ceilings = {
        "fetch": together(stages.fetch_ceiling, processes, place, texts),
        "fetch_unconverted": together(stages.plain_ceiling, processes, place, tables[0], stages.PAGE_ROWS),
        "encode": together(stages.encode_ceiling, processes, sent),
        "send": together(stages.send_ceiling, processes, place, sent),
        "commit": page * together(stages.commit_ceiling, processes, place, tables[0]),
    }
    lowest = min(stages.CEILINGS, key=lambda stage: ceilings[stage])
    return {
        "worker_changes_s": found.changes / found.seconds,
        **{f"worker_us_a_change.{stage}": spent / found.changes * 1e6 for stage, spent in found.stages.items()},
        **{f"ceiling_s.{stage}": ceiling for stage, ceiling in ceilings.items()},
        "slowest_stage": lowest,
        "ratio_to_ceiling": rate / ceilings[lowest],
        **{f"ratio_to_ceiling.{stage}": rate / ceiling for stage, ceiling in ceilings.items()},
    }


def together(measure: Callable[..., float], processes: int, *arguments: object) -> float:
    """The sum of what `processes` processes reach at once."""
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.map(abs, range(processes))  # all are up
        return sum(pool.starmap(measure, [arguments] * processes, chunksize=1))


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
