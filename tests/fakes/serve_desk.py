"""The console's HTTP API and page over the invented desk: `python -m tests.fakes.serve_desk --port 8090 --tables 1000 --allow-changes`."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from desk.console.access import checked
from desk.console.audited import audited
from desk.console.http.app import app_of
from desk.console.http.served import Served
from desk.console.http.serving import listening, serve
from desk.console.limits import Limit, Limits, Rate
from desk.console.tokens import TokenFile
from tests.fakes.desk import lively_desk

UNLIMITED = Rate(per_second=1e6, burst=10**6)


def served(
    *, tables: int = 12, seed: int = 7, dead: int = 60, allow_changes: bool = True, token_file: Path | None = None
) -> Served:
    limits = Limits(requests=Limit("requests", UNLIMITED), changes=Limit("changes", UNLIMITED))
    desk = lively_desk(tables=tables, seed=seed, dead=dead, changes_allowed=allow_changes)
    tokens = None if token_file is None else TokenFile(token_file)
    if tokens is not None:
        tokens.load()
    return Served(
        desk=audited(desk, allow_changes=allow_changes, limits=limits),
        access=checked("127.0.0.1", token_file=tokens is not None, behind_proxy=None),
        allow_changes=allow_changes,
        limits=limits,
        tokens=tokens,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8090)
    parser.add_argument("--tables", type=int, default=12)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--dead", type=int, default=60)
    parser.add_argument("--allow-changes", action="store_true")
    parser.add_argument("--token-file", type=Path)
    asked = parser.parse_args()
    found = served(
        tables=asked.tables,
        seed=asked.seed,
        dead=asked.dead,
        allow_changes=asked.allow_changes,
        token_file=asked.token_file,
    )
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    listener = listening("127.0.0.1", asked.port)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    serve(app_of(found), listener, stop, stopping=found.events.stop)


if __name__ == "__main__":
    main()
