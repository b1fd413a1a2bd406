"""Settings to what observes a running ingester: its figures, the watch of the server's capture, and the port of health and metrics."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from common.observability.health import HealthEndpoint
from ingester.settings import IngesterSettings
from ingester.sqlserver.capture import SqlServerCapture
from ingester.sqlserver.connection import Connection
from ingester.watch.capture_watch import Watch
from ingester.watch.metrics import samples
from ingester.watch.stats import IngesterStats

_QUERY_SECONDS = 30
"""A view that needs longer is asked again at the next check."""


@contextmanager
def observed(settings: IngesterSettings, stop: threading.Event) -> Iterator[IngesterStats]:
    """The figures that the loop writes. The port is open at once, so that a slow start can be seen.

    The server is not asked before the loop has reached it. Raises PermanentError when the port cannot be opened.
    """
    stats = IngesterStats(settings.streams, login_seconds=settings.db.login_seconds)
    connection = Connection(settings.db, proven=True, query_seconds=_QUERY_SECONDS, stop=stop)
    view = SqlServerCapture(connection, beside_scans=settings.low_latency)
    watch = Watch(view, stats)
    with ExitStack() as stack:
        if settings.health is not None:
            stack.enter_context(
                HealthEndpoint(
                    settings.health,
                    alive=stats.alive,
                    ready=stats.ready,
                    samples=lambda: samples(stats, watch.seen),
                )
            )
        stack.enter_context(watch)
        yield stats
