"""What may be set about Change Data Capture when an engine is built. Server-wide; starts nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CdcOptions:
    """Every default but those of `first_entry`, `job_keeps_log` and `session_keeps_log` is the real server's."""

    capture_interval: float | None = None
    """Seconds between scans of new capture jobs, instead of the 5 s of sys.sp_cdc_add_job."""
    idle_interval: float = 300.0
    """Seconds without a transaction after which cdc.lsn_time_mapping gets an entry that stands for none."""
    first_entry: bool = False
    """Whether the first scan of captured tables that finds nothing leaves such an entry at once, as on the real server."""
    cleanup_interval: float | None = None
    """Seconds between two runs of the cleanup job; None: at 02:00, server-local time, every day."""
    max_text_repl_size: int = 65_536
    """The server option of that name: bytes that a large value in a captured column may have (7139); -1 for no limit."""
    command_id_column: bool = True
    """Whether new change tables have `__$command_id`; False: as in a database that was never upgraded (KB 3030352)."""
    job_keeps_log: bool = False
    """Whether a running capture job makes sys.sp_cdc_scan fail with 22903, as on the real server, where this is always so."""
    session_keeps_log: bool = False
    """Whether a session that scanned stays the log's only reader until sp_replflush or its end, as on the real server, where this is always so."""


DEFAULTS = CdcOptions()
