"""Both stages as processes with packs in between, and both killed on the way: what was committed arrives once, in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient

import dstream.demo.pipeline
from common.bus.packing import PACK_TYPE
from common.names import Origin
from dstream.demo.pipeline import DATABASE, Pipeline
from dstream.demo.processes import write_config
from dstream.demo.schema import ORDERS
from dstream.demo.workload import Pace
from tests.worlds.world import wait_until

QUEUE = "ingest-queue"


def with_packs(*given: Any, **named: Any) -> Path:
    path = write_config(*given, **named, tasks=2, routing="workers = 1")
    text = path.read_text()
    assert text.count("    queue {\n") == 1
    path.write_text(text.replace("    queue {\n", '    queue {\n        pack = "max"\n'))
    return path


def waiting(client: ServiceBusClient) -> set[str | None]:
    """Of what kinds the queue's messages of one table are."""
    session = Origin("localhost", DATABASE).session_id(ORDERS, "table")
    with client.get_queue_receiver(QUEUE, session_id=session) as queue:
        return {each.content_type for each in queue.peek_messages(50)}


@pytest.mark.timeout(300)
def test_packs_change_nothing_that_a_subscriber_sees(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dstream.demo.pipeline, "write_config", with_packs)
    with (
        Pipeline(tmp_path, pace=Pace(changes=1500, seconds=4, large=500)) as pipeline,
        ServiceBusClient.from_connection_string(pipeline.emulators.bus_connection_string) as client,
    ):
        log = pipeline.router.log
        wait_until(lambda: log.exists() and "router started" in log.read_text(), "a router, and so queue and topics")
        pipeline.router.kill()
        pipeline.workload.start()
        wait_until(lambda: PACK_TYPE in waiting(client), "a pack in the queue")
        pipeline.ingester.kill()
        pipeline.ingester.start()
        pipeline.router.start()
        pipeline.workload.join()
        pipeline.settle(90)
        verdict = pipeline.verdict()
        assert verdict.good, verdict
        assert verdict.total("committed") >= 1500
        with client.get_queue_receiver(QUEUE, sub_queue="deadletter") as dead:
            assert dead.peek_messages(5) == []
