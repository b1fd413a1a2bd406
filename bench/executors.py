"""How the ingester's rate grows with the executors of a Spark cluster, beside a model whose terms are measured here; then the model, up to 64.

    .venv/bin/python -m bench.executors [--executors 1 2 4] [--delay 250] [--changes-a-slot 1500]

Spark standalone, each worker a network namespace of its own with one executor of 4 cores, 16 tables with a backlog, pages of 50 rows. All
processes share this machine, so slices are made to wait rather than to work: both servers answer `--delay` milliseconds late each way, as from
afar, and small pages make for many such waits. What it shows is how slots, the driver and Spark's scheduling add up, not what a processor does.
Measured while every slot has work, the start of workers left out. The last line is JSON with the same figures. Linux, root. About ten minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from bench.ingestion import stages, system
from bench.ingestion.ground import Ground
from bench.scaling.model import Terms, driver_share, predicted
from bench.scaling.spread import CORES, Drained, Spread, drained, far, jobs
from common.names import TableName
from tests.worlds.machines.network import Network, missing
from tests.worlds.machines.spark import SparkMachines

TABLES: Final = 16
_MODELLED: Final = (8, 16, 32, 64)
_JOBS: Final = 400
_COMMITS: Final = 2000


def measured(ground: Ground, executors: int, delay: float, changes: int) -> Drained:
    """One run, on a new cluster and new tables. `changes`: of a slot."""
    rows = changes * executors * CORES // TABLES
    tables = [ground.table(f"T{executors}_{number}") for number in range(TABLES)]
    for table in tables:
        ground.fill(table, rows)
    ground.cursor.execute("IF OBJECT_ID(N'dbo.cdc_offsets') IS NOT NULL DELETE FROM dbo.cdc_offsets")
    with (
        tempfile.TemporaryDirectory() as folder,
        Network() as network,
        far(network, ground, delay) as ways,
        SparkMachines(network, workers=executors, cores=CORES) as cluster,
        Spread(ground, cluster, ways, network.address, Path(folder), tables) as spread,
    ):
        return drained(spread, rows * TABLES)


def scheduling() -> dict[int, dict[str, Any]]:
    """Empty jobs on a cluster of one executor, from one thread and from as many as it has cores."""
    with Network() as network, SparkMachines(network, workers=1, cores=CORES) as cluster:
        return {threads: jobs(cluster, _JOBS, threads) for threads in (1, CORES)}


def commit_seconds(ground: Ground, table: TableName) -> float:
    """Of the emulator's processor, for one commit of an offset."""
    login = ground.emulators.login
    place = stages.Place(login, ground.emulators.bus_connection_string, "none")
    pid = ground.emulators.pid("sqlserver")
    before = system.processor_seconds(pid)
    stages.commit_ceiling(place, table, _COMMITS)
    return (system.processor_seconds(pid) - before) / _COMMITS


def shown(terms: Terms, idle: float, found: dict[int, dict[str, Any]]) -> None:
    """The terms, printed."""
    lines = {
        "changes/s of a slot": f"{terms.slot:.0f}",
        "changes of a slice; of a page": f"{terms.slice:.0f}; {terms.page:.0f}",
        "driver's work a slice, ms of processor: Python; JVM": f"{terms.driver * 1e3:.1f}; {terms.jvm * 1e3:.1f}",
        "driver's work a pass over idle tables, ms": f"{idle * 1e3:.1f}",
        "emulator's work a commit, ms": f"{terms.commit * 1e3:.2f}",
        "all processes' work a change, us": f"{terms.change * 1e6:.0f}",
    }
    for threads, each in found.items():
        lines[f"empty jobs/s from {threads} threads; ms of processor each: Python; JVM"] = (
            f"{each['jobs_s']:.0f}; {each['driver'] * 1e3:.1f}; {each['jvm'] * 1e3:.1f}"
        )
    print()
    for what, value in lines.items():
        print(f"{what:72} {value}")


def compared(runs: dict[int, Drained], terms: Terms) -> list[dict[str, Any]]:
    """Measured beside predicted, then predicted alone; printed."""
    processors = os.cpu_count() or 1
    first = runs[min(runs)].rate
    print(f"\n{'executors':>9} {'slots':>6} {'changes/s':>10} {'ratio':>6} {'predicted':>10}  limit")
    table = []
    for executors in (*runs, *(each for each in _MODELLED if each > max(runs))):
        run = runs.get(executors)
        slots = run.slots if run else executors * CORES
        expected = predicted(terms, slots, processors=processors if run else None)
        python, jvm = driver_share(terms, expected.rate)
        rate = run.rate if run else None
        row = {
            "executors": executors,
            "slots": slots,
            "changes_s": rate,
            "predicted": expected.rate,
            "limit": expected.limit,
        }
        table.append({**row, "driver": python, "jvm": jvm})
        seen = f"{rate:10.0f} {rate / first:6.2f}" if rate else f"{'':10} {'':6}"
        print(
            f"{executors:9} {slots:6} {seen} {expected.rate:10.0f}  {expected.limit}; driver {python:.2f} processors, its JVM {jvm:.2f}"
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--delay", type=float, default=250, help="milliseconds to either server and as many back")
    parser.add_argument("--changes-a-slot", type=int, default=1500)
    chosen = parser.parse_args()
    if (why := missing()) is not None:
        print(f"executors on machines of their own are left out: {why}")
        return
    runs: dict[int, Drained] = {}
    with Ground() as ground:
        for executors in sorted(chosen.executors):
            runs[executors] = run = measured(ground, executors, chosen.delay / 1000, chosen.changes_a_slot)
            print(
                f"{executors} executors: {run.slots} slots, {run.rate:.0f} changes/s, {run.seconds:.1f} s", flush=True
            )
        commit = commit_seconds(ground, TableName("dbo", f"T{min(runs)}_0"))
    found = scheduling()
    few, many = runs[min(runs)].terms(commit), runs[max(runs)].terms(commit)
    terms = Terms(few.slot, few.slice, few.page, many.driver, many.jvm, commit, many.change)
    shown(terms, runs[max(runs)].idle, found)
    table = compared(runs, terms)
    print(json.dumps({"runs": table, "jobs": found}))


if __name__ == "__main__":
    main()
