"""The ingester's metrics: their names, and their values at a moment. A test holds the table in docs/run.md to this module."""

from __future__ import annotations

from collections.abc import Iterator

from common.observability.metrics import Metric, Sample
from ingester.watch.capture_watch import CaptureFigures
from ingester.watch.figures import Standing
from ingester.watch.stats import IngesterStats

CHANGES = Metric("dstream_ingester_changes_total", "counter", "Changes read, sent and committed.", ("table",))
PAGES = Metric("dstream_ingester_pages_total", "counter", "Pages of changes read and sent.", ("table",))
DROPPED = Metric(
    "dstream_ingester_dropped_total",
    "counter",
    "Changes, and rows of snapshots, that the table's shape left out.",
    ("table",),
)
OVERSIZE = Metric(
    "dstream_ingester_oversize_total",
    "counter",
    "Changes that are too large for a message; stand-ins were sent for dead-lettering.",
    ("table",),
)
FILTER_FAILED = Metric(
    "dstream_ingester_filter_failed_total",
    "counter",
    "Changes on which the filter failed; they were sent to be dead-lettered.",
    ("table",),
)
GAPS = Metric(
    "dstream_ingester_gaps_skipped_total", "counter", 'Gaps skipped (`on_gap = "skip"` or `"snapshot"`).', ("table",)
)
ROWS = Metric("dstream_ingester_snapshot_rows_total", "counter", "Rows that snapshots have sent.", ("table",))
SNAPSHOTS = Metric(
    "dstream_ingester_snapshot_running", "gauge", "1 while a snapshot of the table is taken, else 0.", ("table",)
)
FAILED_SNAPSHOTS = Metric(
    "dstream_ingester_snapshots_failed_total",
    "counter",
    "Snapshots that ended with an error; the table's changes go on.",
    ("table",),
)
FAILURES = Metric(
    "dstream_ingester_failures_total",
    "counter",
    "Slices that failed and are tried again, unless `kind` is `permanent`.",
    ("table", "kind"),
)
STATE = Metric(
    "dstream_ingester_table_state",
    "gauge",
    "1 for the table's state: `read`, `elsewhere` (another ingester has its lock, or none yet), `absent` (missing, or not under CDC), `paused` "
    "(by a person), `stopped`.",
    ("table", "state"),
)
STOPPED = Metric(
    "dstream_ingester_tables_stopped",
    "gauge",
    "Tables that stopped with an error and are not read until a person acts.",
)
LOCK = Metric("dstream_ingester_lock_held", "gauge", "1 while this ingester has the table's lock.", ("table",))
LAG = Metric(
    "dstream_ingester_lag_seconds",
    "gauge",
    "Seconds since the commit of the oldest captured change that is not sent yet; 0 if none. Of the tables that this ingester answers for.",
    ("table",),
)
HEADROOM = Metric(
    "dstream_ingester_retention_headroom_seconds",
    "gauge",
    "Seconds until cleanup may remove unread changes of the table; below 0 it may have done so. Missing if the retention is unknown.",
    ("table",),
)
RETENTION = Metric(
    "dstream_ingester_retention_seconds", "gauge", "How long the server keeps changes, as the cleanup job says."
)
SILENCE = Metric(
    "dstream_ingester_silence",
    "gauge",
    "1 for the reason why no changes arrive: `flowing` (they do), `idle`, `capture_stopped`, `capture_lagging`, `unknown` (a right is missing).",
    ("table", "state"),
)
CAPTURED = Metric(
    "dstream_ingester_capture_age_seconds",
    "gauge",
    "Seconds since the commit of the newest transaction that was captured.",
)
CONNECTED = Metric("dstream_ingester_connected", "gauge", "1 while SQL Server can be reached.")
QUEUE = Metric(
    "dstream_ingester_queue_available",
    "gauge",
    "0 while the queue, or the right to use it, is refused and all tables wait, or while nothing can be sent to it.",
)
READY = Metric("dstream_ingester_ready", "gauge", "1 while `/readyz` is 200.")
SLOTS = Metric("dstream_ingester_slots", "gauge", "Tasks that Spark can run at once.")
BUSY = Metric("dstream_ingester_slots_busy", "gauge", "Slots that run a task now.")
THROTTLED = Metric("dstream_ingester_throttled_total", "counter", "Sends that a throttling namespace refused.")
CLOCKS = Metric(
    "dstream_ingester_clock_differences_total",
    "counter",
    "Slices that came back from a machine whose clock differs from the driver's by more than 2 s.",
)
SCANS = Metric(
    "dstream_ingester_log_scans_total",
    "counter",
    "Scans of the log with `low_latency`: `captured`, `empty`, `busy` (another session scans), `failed`.",
    ("outcome",),
)
SCANNING = Metric(
    "dstream_ingester_log_scanning",
    "gauge",
    "1 while this ingester scans the log with `low_latency`, 0 while no scan succeeds; missing where another one does, or none.",
)
QUIET = Metric("dstream_ingester_quiet_seconds", "gauge", "Seconds since any change was sent.")
PASSES = Metric(
    "dstream_ingester_pass_seconds",
    "histogram",
    "A pass over the due tables: catalog, locks, and one probe for all.",
)
SLICES = Metric(
    "dstream_ingester_slice_seconds",
    "histogram",
    "A slice of a table, from its handover to Spark until its return.",
)

METRICS = (
    CHANGES,
    PAGES,
    DROPPED,
    OVERSIZE,
    FILTER_FAILED,
    GAPS,
    ROWS,
    SNAPSHOTS,
    FAILED_SNAPSHOTS,
    FAILURES,
    STATE,
    STOPPED,
    LOCK,
    LAG,
    HEADROOM,
    RETENTION,
    SILENCE,
    CAPTURED,
    CONNECTED,
    QUEUE,
    READY,
    SLOTS,
    BUSY,
    THROTTLED,
    CLOCKS,
    SCANS,
    SCANNING,
    QUIET,
    PASSES,
    SLICES,
)


def samples(stats: IngesterStats, found: CaptureFigures) -> Iterator[Sample]:
    """Every metric with its present value."""
    figures = stats.figures()
    for name, table in sorted(figures.tables.items()):
        key = name.key
        yield CHANGES(table.changes, key)
        yield PAGES(table.pages, key)
        yield DROPPED(table.dropped, key)
        yield OVERSIZE(table.oversize, key)
        yield FILTER_FAILED(table.filter_failed, key)
        yield GAPS(table.gaps, key)
        yield ROWS(table.rows, key)
        yield SNAPSHOTS(table.snapshots, key)
        yield FAILED_SNAPSHOTS(table.failed_snapshots, key)
        for kind, count in sorted(table.failures.items()):
            yield FAILURES(count, key, kind)
        yield STATE(1, key, table.standing.value)
        yield LOCK(int(table.standing in (Standing.READ, Standing.PAUSED)), key)
        if table.ours:
            yield LAG(found.lag(figures.now, table, name), key)
        if table.standing is Standing.READ:
            yield SILENCE(1, key, found.silence(figures.now, table).value)
        if table.ours and name in found.headroom:
            yield HEADROOM(found.headroom[name], key)
    if found.retention is not None:
        yield RETENTION(found.retention)
    if found.newest is not None:
        yield CAPTURED(found.newest)
    yield STOPPED(sum(table.standing is Standing.STOPPED for table in figures.tables.values()))
    yield CONNECTED(int(figures.connected))
    yield QUEUE(int(figures.queue))
    yield READY(int(stats.ready() is None))
    yield SLOTS(figures.slots)
    yield BUSY(figures.busy)
    yield THROTTLED(figures.refusals)
    yield CLOCKS(figures.clocks_off)
    for outcome, count in sorted(figures.scans.items()):
        yield SCANS(count, outcome)
    if figures.scanning is not None:
        yield SCANNING(int(figures.scanning))
    yield QUIET(figures.quiet)
    yield PASSES(figures.passes)
    yield SLICES(figures.slices)
