"""`low_latency`: changes are captured because the ingester scans the log, by one ingester at a time, and never at the cost of reading.

The capture job scans every ten minutes here, as rarely as the scheduler of Azure SQL Database compared with a poll interval: what arrives was
captured by an ingester.
"""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from dstream.demo.workload import Pace
from emulators.servicebus.server import ServiceBusEmulator
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.cdc.options import CdcOptions
from emulators.sqlserver.server import SqlServerEmulator
from tests.worlds.world import DATABASE, PASSWORD, USER, Ingester, World, good, wait_until

RARELY = 600.0


class Captured(World):
    """Capture has a rhythm of its own, and may keep the log."""

    capture_interval, job_keeps_log = RARELY, False

    def _make_servers(self) -> None:
        self._engine = build_engine(
            users={USER: PASSWORD},
            databases=[DATABASE],
            capture_interval=self.capture_interval,
            capture=CdcOptions(job_keeps_log=self.job_keeps_log),
        )
        self.sqlserver = SqlServerEmulator(self._engine, host=self._listens)
        self.servicebus = ServiceBusEmulator(host=self._listens)


class KeptLog(Captured):
    """As SQL Server Agent's job does it: the log is never free."""

    capture_interval, job_keeps_log = 0.3, True


def scans(ingester: Ingester, outcome: str) -> float:
    """How many scans came to that, as its metrics say."""
    name = f'dstream_ingester_log_scans_total{{outcome="{outcome}"}}'
    with urllib.request.urlopen(f"http://{ingester.health}/metrics", timeout=30) as page:
        lines = page.read().decode().splitlines()
    return float(next((line.rsplit(" ", 1)[1] for line in lines if line.startswith(name)), "0"))


def says(ingester: Ingester, text: str) -> bool:
    return text in ingester.log.read_text()


_FOR_EVER = 100_000
SCANS = "scanning the log "


@pytest.mark.timeout(240)
def test_changes_arrive_long_before_the_source_would_capture_them_and_another_ingester_takes_over(
    tmp_path: Path,
) -> None:
    with Captured(
        tmp_path, locks='type = "sqlserver"', more="low_latency = true", pace=Pace(25 * _FOR_EVER, _FOR_EVER, large=0)
    ) as world:
        first = world.start_ingester()
        wait_until(lambda: says(first, SCANS), "the first scans")
        second = world.start_ingester()
        wait_until(lambda: says(second, "ingester started"), "the second has started")
        world.workload.start()
        wait_until(lambda: scans(first, "captured") > 0, "a scan captured changes")
        assert not says(second, SCANS)
        assert first.stop() == 0
        wait_until(lambda: says(second, SCANS), "the second scans", 60)
        wait_until(lambda: scans(second, "captured") > 0, "its scans capture changes")
        world.workload.stop()
        world.workload.join()
        assert good(world.verdict())


@pytest.mark.soak
@pytest.mark.timeout(240)
def test_a_job_that_keeps_the_log_does_not_keep_changes_from_being_sent(tmp_path: Path) -> None:
    with KeptLog(tmp_path, more="low_latency = true", pace=Pace(100, 3, large=0)) as world:
        ingester = world.start_ingester()
        wait_until(lambda: scans_or_none(ingester, "busy") > 0, "a scan is refused")
        world.workload.start()
        world.workload.join()
        assert good(world.verdict())
        assert scans(ingester, "captured") == 0


def scans_or_none(ingester: Ingester, outcome: str) -> float:
    try:
        return scans(ingester, outcome)
    except OSError:  # its port is not open yet
        return 0
