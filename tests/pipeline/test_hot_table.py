"""One hot table with `ordering = "key"`, both stages as processes: several Spark tasks read it at once, and each key's changes stay in order."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from common.names import Origin, TableName
from dstream.demo.processes import Service, environment
from dstream.demo.subscriber import Subscriber
from dstream.emulators import Emulators
from tests.worlds.world import SPARK_UP, wait_until

DATABASE, HOT = "heat", TableName("dbo", "Hot")
KEYS, VERSIONS = 300, 20

CONFIG = """\
ingester {{
    db_type              = "sqlserver"
    db_connection_string = "{{{{ env("DSTREAM_DB_CONNECTION_STRING") }}}}"
    poll_interval_defaults {{
        poll_interval     = "200ms"
        max_poll_interval = "500ms"
    }}
    queue {{
        type                = "servicebus"
        name                = "ingest-queue"
        connection_string   = "{{{{ env("DSTREAM_INGEST_CONNECTION_STRING") }}}}"
        management_endpoint = "{management}"
        ordering            = "key"
        key_buckets         = 16
    }}
    locks {{
        type = "local"
    }}
    tables    = ["Hot"]
    page_rows = 200
    spark {{
        master = "local[4]"
    }}
}}

router {{
    workers = 1
    source {{
        connection_string   = "{{{{ env("DSTREAM_PUBLISHER_CONNECTION_STRING") }}}}"
        management_endpoint = "{management}"
    }}
    output {{
        connection_string   = "{{{{ env("DSTREAM_PUBLISHER_CONNECTION_STRING") }}}}"
        management_endpoint = "{management}"
    }}
}}
"""


@pytest.fixture
def emulators() -> Iterator[Emulators]:
    with Emulators(database=DATABASE, capture_interval=0.3) as running:
        with running.login.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE dbo.Hot (ID INT NOT NULL PRIMARY KEY, Version INT NOT NULL)")
            cursor.execute("EXEC sys.sp_cdc_enable_db")
            cursor.execute(
                "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Hot', @role_name = NULL"
            )
        yield running


def heat(emulators: Emulators) -> None:
    """Commit every change, and wait until all of them are captured."""
    with emulators.login.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO dbo.Hot VALUES {', '.join(f'({n}, 0)' for n in range(KEYS))}")
        for _ in range(1, VERSIONS):
            cursor.execute("UPDATE dbo.Hot SET Version = Version + 1")

        def captured() -> bool:
            cursor.execute("SELECT COUNT(*) FROM cdc.dbo_Hot_CT")
            return bool(cursor.fetchone()[0] == KEYS * (2 * VERSIONS - 1))  # an update has a row before and one after

        wait_until(captured, "everything is captured")


@pytest.mark.timeout(300)
def test_a_hot_tables_keys_arrive_in_order_though_several_tasks_read_it(emulators: Emulators, tmp_path: Path) -> None:
    config = tmp_path / "dstream.hcl"
    config.write_text(CONFIG.format(management=emulators.management_endpoint))
    variables = environment(emulators) | {"DSTREAM_LOG_LEVEL": "debug"}
    subscriber = Subscriber(emulators.bus_connection_string, {HOT: Origin("localhost", DATABASE).topic(HOT)})
    with ExitStack() as ending:
        router, ingester = (
            Service(stage, config, variables, tmp_path / f"{stage}.log") for stage in ("router", "ingester")
        )
        for service in (router, ingester):
            service.start()
            ending.callback(service.stop)
        wait_until(lambda: SPARK_UP in ingester.log.read_text(), "Spark has started: it alone has room for parts")
        os.kill(ingester.pid, signal.SIGSTOP)  # so that it finds a backlog
        try:
            heat(emulators)
        finally:
            os.kill(ingester.pid, signal.SIGCONT)
        subscriber.start()
        ending.callback(subscriber.stop)
        wait_until(lambda: subscriber.counts()[HOT] >= KEYS * VERSIONS, "every change has arrived")
    versions: dict[int, list[int]] = {}
    for message in subscriber.received()[HOT]:
        data = json.loads(message.body)["data"]
        versions.setdefault(data["ID"], []).append(data["Version"])
    assert versions == {key: list(range(VERSIONS)) for key in range(KEYS)}
    strides = re.findall(r"stride .*tasks=(\d)", (tmp_path / "ingester.log").read_text())
    assert len(strides) >= 5
    assert set(strides) <= {"2", "3"}
