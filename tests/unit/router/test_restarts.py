"""When a worker that died is started again; what it is to be a worker's parent otherwise, tests/contracts/bus/test_workers.py knows."""

from __future__ import annotations

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from common.names import TableName
from common.retry import Backoff
from common.topology import BusSettings
from router.settings import RouterSettings
from router.workers import STEADY, Workers

REACH = BusSettings(
    connection_string=SecretStr("Endpoint=sb://x;SharedAccessKeyName=n;SharedAccessKey=hunter2-hunter2")
)
SETTINGS = RouterSettings(
    source=REACH,
    output=REACH,
    queue_name="ingest-queue",
    ordering="table",
    destinations={"a.b.c.events": TableName("dbo", "C")},
    workers=2,
)


def test_a_worker_is_started_again_at_once_then_after_pauses_by_chance_and_at_once_after_a_steady_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def delay(self: Backoff, attempt: int, chance: object = None) -> float:
        asked.append(attempt)
        return 0.25 * self.ceiling(attempt)

    monkeypatch.setattr(Backoff, "delay", delay)
    now = 1000.0
    workers = Workers(SETTINGS, backoff=Backoff(first=4.0, longest=8.0), clock=lambda: now)
    workers._begun = True
    worker, other = workers._workers
    pauses = []
    with capture_logs() as logs:
        for lived in (STEADY, 1.0, 1.0, 1.0, STEADY):
            worker.began, now = now, now + lived
            workers._mourn(worker, -9)
            pauses.append(worker.again_at - now)
    assert pauses == [0.0, 1.0, 2.0, 2.0, 0.0]
    assert asked == [1, 2, 3]
    assert [entry["event"] for entry in logs] == ["worker died; starting it again"] * 5
    assert other.again_at == 0.0
