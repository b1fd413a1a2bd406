"""The parts of `make bench`: which program each runs, and which figures of its last line of JSON the table takes. Runs nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.table.figures import Figure

_FULL: Final = 0.9
"""A process that uses more of a core than this is the one that all others wait for."""
TABLES: Final = (1, 4, 16, 64)

Found = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """`program`: what follows `python`; `quick`: instead of its `options`. `figures`: of the program's JSON and the number of cores."""

    name: str
    program: Sequence[str]
    options: Sequence[str]
    quick: Sequence[str]
    figures: Callable[[Found, int], Iterable[Figure]]
    seconds: float = 1200.0
    """After which it counts as failed."""

    def command(self, *, quick: bool) -> list[str]:
        """Its arguments."""
        return [*self.program, *(self.quick if quick else self.options)]


def ours(found: Found, cores: int) -> Iterable[Figure]:
    """Of bench/change_cost.py: our processor time by stage."""
    for stage, spent in found["ours"].items():
        yield Figure(f"a change in a worker: {stage}", spent, "µs", found["floor"].get(stage))


def server(found: Found, cores: int) -> Iterable[Figure]:
    """Of bench/server_readers.py: processor time of SQL Server's emulator."""
    for readers, each in found.items():
        yield Figure(f"a change in the server's emulator, {readers} at once", each["pages_us"], "µs", each["plain_us"])


def backlog(found: Found, cores: int) -> Iterable[Figure]:
    """Of bench/ingest.py --part backlog."""
    for count, each in found["backlog"].items():
        name = "1 table" if count == "1" else f"{count} tables"
        ceiling = each[f"ceiling_s.{each['slowest_stage']}"]
        remark = "; ".join(filter(None, (f"ceiling: {each['slowest_stage']}", bottleneck(each, cores))))
        yield Figure(f"{name}: rate", each["changes_s"], "changes/s", ceiling, more_is_better=True, remark=remark)
        for part, title in (("workers", "workers"), ("sqlserver", "server's emulator")):
            yield Figure(f"{name}: {title}", each[f"processor_us_a_change.{part}"], "µs a change")


def bottleneck(each: Mapping[str, Any], cores: int) -> str:
    """What the rate is bound by, where a process fills a core or all processes fill the machine."""
    prefix = "processor_us_a_change."
    used = {name.removeprefix(prefix): us * each["changes_s"] / 1e6 for name, us in each.items() if prefix in name}
    for part, title in (("sqlserver", "SQL Server's emulator"), ("servicebus", "Service Bus's emulator")):
        if used.get(part, 0.0) > _FULL:
            return f"bound by {title}, one process: {used[part]:.2f} of a core"
    whole = sum(used.values())
    return f"bound by the machine: {whole:.2f} of {cores} cores" if whole > _FULL * cores else ""


def start(found: Found, cores: int) -> Iterable[Figure]:
    """Of bench/start.py, whose JSON is by interpreter."""
    each = next(iter(found.values()))
    yield Figure("start: to the first change in the queue", each["first_change_s"], "s")
    yield Figure("start: processor time until then", each["processor_s"], "s")
    yield Figure("idle memory: driver and JVM", each["driver_and_jvm_mb"], "MB")
    yield Figure("idle memory: workers", each["workers_mb"], "MB")


def spark(found: Found, cores: int) -> Iterable[Figure]:
    """Of bench/bare_spark.py, which is the floor of the start as long as a change passes Spark."""
    yield Figure("a bare Spark session and one job", found["seconds"], "s")
    yield Figure("a bare Spark session and one job: processor time", found["processor_s"], "s")
    yield Figure("a bare Spark session: Python and JVM", found["memory_mb"], "MB")


def idle(found: Found, cores: int) -> Iterable[Figure]:
    """Of bench/ingest.py --part idle."""
    each = found["idle"]
    name = f"{each['tables']:,} idle tables"
    used = sum(each[f"cores.{part}"] for part in ("driver", "jvm", "workers"))
    yield Figure(f"{name}: ours", used, "of a core")
    yield Figure(f"{name}: server's emulator", each["cores.sqlserver"], "of a core")
    yield Figure(f"{name}: statements", each["probes_s"] + each["other_statements_s"], "a second", 1 / each["poll_s"])


def latency(found: Found, cores: int) -> Iterable[Figure]:
    """Of bench/queue_latency.py; what capture and poll take is the floor of the whole."""
    beside = f", beside {found['idle_tables']:,} idle tables" if found["idle_tables"] else ""
    for share in ("p50", "p99"):
        yield Figure(f"latency, ours: {share}{beside}", found["own"][share], "ms")
        floor = found["capture"][share] + found["poll"][share]
        yield Figure(f"latency, commit to queue: {share}{beside}", found["whole"][share], "ms", floor)


def router(found: Found, cores: int) -> Iterable[Figure]:
    """Of bench/router.py: single messages beside the SDK's bare loop on one session, and packs."""
    rate, cost = found["ceiling: the SDK's bare loop: messages/s"], found["ceiling: the SDK's bare loop: us"]
    for workers, sessions, pack in ((1, 1, "1"), (1, 8, "1"), (2, 8, "1"), (1, 8, "50")):
        about = f"router: workers {workers}, sessions {sessions}, pack {pack}"
        bound = rate if pack == "1" else None
        yield Figure(about, found[f"{about}: messages/s"], "changes/s", bound, more_is_better=True)
        yield Figure(f"{about}: processor", found[f"{about}: us"], "µs", cost if pack == "1" else None)
    yield Figure("router: a single message's delay, median", found["delay: median ms"], "ms")


def snapshot(found: Found, cores: int) -> Iterable[Figure]:
    """Of bench/snapshots.py."""
    for tasks, each in found.items():
        ceiling = each[f"ceiling_s.{each['slowest_stage']}"]
        name = f"snapshot, {tasks} tasks"
        yield Figure(name, each["rows_s"], "rows/s", ceiling, more_is_better=True)
        yield Figure(f"{name}: workers", each["processor_us_a_row.workers"], "µs a row")
        yield Figure(f"{name}: server's emulator", each["processor_us_a_row.sqlserver"], "µs a row")


def console(found: Found, cores: int) -> Iterable[Figure]:
    """Of bench/console.py --part views."""
    for name, took in found.items():
        yield Figure(f"console: {name}", took, "ms")


PARTS: Final = (
    Part("ours", ["-m", "bench.change_cost"], ["--rounds", "5"], ["--rows", "10000", "--rounds", "2"], ours),
    Part("server", ["-m", "bench.server_readers"], [], ["--rows", "5000", "--rounds", "1"], server),
    Part(
        "backlog",
        ["-m", "bench.ingest", "--part", "backlog"],
        ["--rows", "60000", "--tables", *map(str, TABLES)],
        ["--rows", "15000", "--tables", "1", "16"],
        backlog,
    ),
    Part("start", ["-m", "bench.start"], ["--rounds", "5"], ["--rounds", "1", "--settle", "2"], start),
    Part("spark", ["-m", "bench.bare_spark"], ["--rounds", "5"], ["--rounds", "1"], spark),
    Part("idle", ["-m", "bench.ingest", "--part", "idle"], ["--idle-tables", "5000"], ["--quick"], idle),
    Part("latency", ["-m", "bench.queue_latency"], [], ["--seconds", "14"], latency),
    Part(
        "latency-idle",
        ["-m", "bench.queue_latency"],
        ["--idle-tables", "1000"],
        ["--seconds", "14", "--idle-tables", "100"],
        latency,
    ),
    Part("router", ["-m", "bench.router"], ["--messages", "5000", "--rounds", "1"], ["--quick"], router),
    Part(
        "snapshot",
        ["-m", "bench.snapshots"],
        ["--rows", "60000", "--tasks", "4"],
        ["--rows", "20000", "--tasks", "4", "--seconds", "5"],
        snapshot,
    ),
    Part("console", ["-m", "bench.console", "--part", "views"], [], [], console),
)


def chosen(names: str | None) -> list[Part]:
    """By their names, with commas between them; all where there are none. Raises ValueError with a text for people."""
    if names is None:
        return list(PARTS)
    known = {part.name: part for part in PARTS}
    asked = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        raise ValueError(f"unknown part: {', '.join(unknown) or repr(names)}; the parts are {', '.join(known)}")
    return [known[name] for name in asked]
