"""A console over the invented desk, on a port of its own, in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from desk.console.access import Access, checked
from desk.console.audited import audited
from desk.console.calls import Calls
from desk.console.http.app import app_of
from desk.console.http.events import Events
from desk.console.http.served import Served
from desk.console.http.serving import GuardedProtocol, listening, serve
from desk.console.limits import Limit, Limits, Rate, counting
from desk.console.peers import Peers, own_account
from desk.console.tokens import TokenFile
from desk.desk import Desk
from tests.fakes.desk import FakeAudit, lively_desk

LOCAL = checked("127.0.0.1", token_file=False, behind_proxy=None)
TOKEN = "a-token-that-is-long-enough"


def unlimited() -> Limits:
    rate = Rate(per_second=1e6, burst=10**6)
    return Limits(requests=Limit("requests", rate), changes=Limit("changes", rate))


@dataclass(frozen=True, slots=True)
class Running:
    url: str
    port: int
    served: Served
    desk: Desk
    client: httpx.Client

    @property
    def audit(self) -> FakeAudit:
        assert isinstance(self.desk.audit, FakeAudit)
        return self.desk.audit

    def get(self, path: str, **given: Any) -> httpx.Response:
        return self.client.get(f"/api/v1/{path}", **given)

    def post(self, path: str, body: Any = None, **given: Any) -> httpx.Response:
        return self.client.post(f"/api/v1/{path}", json={} if body is None else body, **given)


@contextmanager
def running(
    *,
    tables: int = 12,
    desk: Desk | None = None,
    allow_changes: bool = True,
    access: Access = LOCAL,
    token_file: Path | None = None,
    limits: Limits | None = None,
    calls: Calls | None = None,
    events: Events | None = None,
    protocol: type[GuardedProtocol] = GuardedProtocol,
    headers: Mapping[str, str] | None = None,
    page: Path | None = None,
    look_every: float = 5.0,
    peers: Peers | None = None,
    counted_as: Callable[[str], str | None] | None = None,
) -> Iterator[Running]:
    bare = desk or lively_desk(tables=tables, changes_allowed=allow_changes, look_every=look_every)
    limits = limits or unlimited()
    tokens = None
    if token_file is not None:
        tokens = TokenFile(token_file)
        tokens.load()
        access = replace(access, mode="token")
    served = Served(
        desk=audited(bare, allow_changes=allow_changes, limits=limits),
        access=access,
        allow_changes=allow_changes,
        limits=limits,
        tokens=tokens,
        calls=calls or Calls(),
        events=events or Events(),
        local_user="anna",
        peers=peers or own_account(),
    )
    stop, listener = threading.Event(), listening("127.0.0.1", 0)
    port = listener.getsockname()[1]
    app = app_of(served) if page is None else app_of(served, page)
    thread = threading.Thread(
        target=serve,
        args=(app, listener, stop),
        kwargs={
            "stopping": served.events.stop,
            "protocol": protocol,
            "counted_as": counted_as or counting(access),
        },
    )
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=20) as client:
            yield Running(f"http://127.0.0.1:{port}", port, served, bare, client)
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive(), "the console does not stop"
