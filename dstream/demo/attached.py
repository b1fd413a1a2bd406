"""`dstream demo --attach`: workload, subscriber and verdict against services that run elsewhere, as in a cluster.

Starts and stops none of them. It prints lines instead of a live table, because it is read through the log of a container.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr
from rich.console import Console

from common.errors import ConfigurationError, PermanentError
from common.names import Origin, TableName
from dstream.config import load_both
from dstream.demo import display
from dstream.demo.ends import Ends
from dstream.demo.schema import TABLES, create_or_continue
from dstream.demo.verdict import Verdict
from dstream.demo.workload import Pace
from dstream.emulators import Login

_REACH_SECONDS = 180.0
"""How long SQL Server may take to accept the first connection: in a cluster everything starts at once."""

_PATIENCE_SECONDS = 300.0
"""How long nothing may arrive before what is missing counts as lost: longer than a lease and a session lock of killed processes together."""

_QUIET_SECONDS = 5.0
_REPORT_SECONDS = 10.0
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Target:
    """What the configuration of the running services says."""

    login: Login = field(repr=False)
    bus: str = field(repr=False)
    origin: Origin
    subscription: str


def target(config: Path, environ: Mapping[str, str]) -> Target:
    """Read it. Raises ConfigurationError for a configuration that is not the demo's."""
    ingester, router = load_both(config, environ)
    problems = []
    if set(ingester.tables) != set(TABLES):
        tables = ", ".join(f'"{table.key}"' for table in TABLES)
        problems.append(f"{config}: ingester.tables must be the demo's tables: [{tables}]")
    bus = getattr(router.output, "connection_string", None)  # a bus that the public SDK can reach with a key
    if not isinstance(bus, SecretStr):
        problems.append(f"{config}: router.output must have a connection_string: the demo's subscriber has no identity")
    if ingester.db.identity is not None:
        problems.append(
            f"{config}: ingester.db_connection_string must have a user and a password: the demo has no identity"
        )
    if not router.subscriptions:
        problems.append(f"{config}: router.subscriptions must name a subscription for the demo to read")
    if problems or not isinstance(bus, SecretStr):
        raise ConfigurationError(problems)
    db = ingester.db
    login = Login(db.host, db.port or 1433, db.user, db.password.get_secret_value(), db.database)
    return Target(login, bus.get_secret_value(), ingester.origin, router.subscriptions[0])


def run(config: Path, environ: Mapping[str, str], *, pace: Pace, stop: threading.Event) -> int:
    """Return the exit status: 0 for a good verdict, 1 for a bad one and for a demo that was stopped."""
    found = target(config, environ)
    console = Console()
    console.print(f"Connecting to SQL Server at {found.login.host}:{found.login.port} ...", highlight=False)
    if not reached(found.login, stop):
        return 1
    after = create_or_continue(found.login)
    # Of its own: the same rows again would hide that a message of an earlier run came late.
    ends = Ends(found.origin, pace=pace, seed=after + 1)
    ends.connect(found.login, found.bus, subscription=found.subscription, after=after)
    ends.subscriber.start()
    try:
        ends.workload.start()
        _watch(ends, console, stop)
        if stop.is_set():
            return 1
        _join(ends)
        stop.wait(_QUIET_SECONDS)  # for messages that should not arrive any more
    finally:
        ends.workload.stop()
        ends.subscriber.stop()
    return _conclude(ends, console)


def reached(login: Login, stop: threading.Event, *, seconds: float = _REACH_SECONDS) -> bool:
    """Wait until the server accepts connections; False if stopped meanwhile. Raises PermanentError when it never does."""
    deadline = time.monotonic() + seconds
    while (refusal := login.refusal()) is not None:
        if time.monotonic() >= deadline:
            raise PermanentError(
                f"connecting to SQL Server at {login.host}:{login.port}: refused for {seconds:.0f} s: {refusal[:200]}",
                hint="see whether it runs, and whether the address and the login are right",
            )
        if stop.wait(1):
            return False
    return not stop.is_set()


def _watch(ends: Ends, console: Console, stop: threading.Event) -> None:
    """Report until everything has arrived, until nothing arrives any more, or until `stop`."""
    arrived, since, reported = 0, time.monotonic(), 0.0
    while not stop.wait(_LOOK_SECONDS):
        now, running, total = time.monotonic(), ends.workload.running, _total(ends.subscriber.counts())
        if running or total != arrived:
            arrived, since = total, now
        if now - reported >= _REPORT_SECONDS:
            reported = now
            console.print(progress(ends.ledger.counts(), ends.subscriber.counts()), highlight=False, soft_wrap=True)
        if not running and (ends.delivered() or now - since >= _PATIENCE_SECONDS):
            return


def progress(committed: Mapping[TableName, int], delivered: Mapping[TableName, int]) -> str:
    """One line."""
    done, arrived = _total(committed), _total(delivered)
    return f"committed {done}, delivered {arrived}, behind {max(0, done - arrived)}"


def _total(counts: Mapping[TableName, int]) -> int:
    return sum(counts.values())


def _join(ends: Ends) -> None:
    try:
        ends.workload.join()
    except Exception as error:
        raise PermanentError(
            f"writing to SQL Server: {str(error)[:200]}", hint="the workload needs one server for all of its time"
        ) from error


def _conclude(ends: Ends, console: Console) -> int:
    result = ends.verdict()
    display.verdict(console, result, _facts(ends, result), ends.subscriber)
    counts = ("committed", "received", "lost", "duplicated", "out_of_order", "wrong")
    line = " ".join(f"{count}={result.total(count)}" for count in counts)
    console.print(f"verdict {'good' if result.good else 'bad'} {line}", highlight=False, soft_wrap=True)
    return 0 if result.good else 1


def _facts(ends: Ends, result: Verdict) -> list[tuple[str, str]]:
    median, most, worst = (result.lag(share) for share in (0.5, 0.99, 1.0))
    if median is None or most is None or worst is None:
        return []
    return [("From commit to topic", f"median {median:.2f} s, 99 % within {most:.2f} s, at most {worst:.2f} s")]
