"""No secret of the configuration is on a command line, in a file or an event log of Spark's, or in a log of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

from dstream.demo.processes import environment, write_config
from dstream.demo.schema import create
from dstream.emulators import Emulators
from tests.azurite import server as azurite
from tests.worlds.standalone import children
from tests.worlds.world import SPARK_UP, wait_until

CONF_SECRET = "planted-in-spark-conf"
WAIT = 120.0


def holding(secrets: list[str], files: list[Path]) -> list[str]:
    """Which of `files` hold any of `secrets`. A file may go while it is looked for."""
    found = []
    for file in files:
        try:
            content = file.read_bytes()
        except OSError:
            continue
        found += [f"{file}: secret {number}" for number, secret in enumerate(secrets) if secret.encode() in content]
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.timeout(300)
def test_planted_secrets_are_found_nowhere_but_where_the_manual_says(tmp_path: Path) -> None:
    scratch, events = tmp_path / "tmp", tmp_path / "events"
    scratch.mkdir()
    events.mkdir()
    conf = {
        "spark.hadoop.fs.azure.account.key.x": CONF_SECRET,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    with Emulators(database="demo", capture_interval=0.5) as emulators, ExitStack() as stack:
        create(emulators.login)
        locks, storage = 'type = "local"', ""
        if azurite.missing() is None:  # without it there is no storage account, and so none of its keys to look for
            storage = azurite.connection_string(stack.enter_context(azurite.Azurite()).port)
            locks = 'type = "azure_blob"\nconnection_string = "{{ env("PLANTED_STORAGE") }}"'
        config = write_config(
            tmp_path,
            emulators,
            "500ms",
            locks=locks,
            tasks=2,
        )
        inside = "\n".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in conf.items())
        config.write_text(config.read_text().replace('"local[2]"', f'"local[2]"\nconf = {{\n{inside}\n}}'))
        key = emulators.bus_connection_string.partition("SharedAccessKey=")[2].partition(";")[0]
        secrets = [emulators.login.password, key, CONF_SECRET]
        secrets += [storage.partition("AccountKey=")[2].partition(";")[0]] if storage else []
        secrets += [quote(emulators.login.password, safe="")]
        log = tmp_path / "ingester.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "dstream", "ingester", "--config", str(config), "--log-level", "debug"],
                stdout=out,
                stderr=out,
                env={
                    **os.environ,
                    **environment(emulators),
                    "PLANTED_STORAGE": storage,
                    "TMPDIR": str(scratch),
                },
            )
        try:
            wait_until(lambda: process.poll() is not None or SPARK_UP in log.read_text(), "Spark has started", WAIT)
            with emulators.login.connect() as connection, connection.cursor() as cursor:
                cursor.execute("INSERT INTO dbo.Customers VALUES (1, N'Ada', NULL, 0, 1)")
            deadline = time.monotonic() + WAIT
            while not sent(emulators):
                assert time.monotonic() < deadline, log.read_text()
                assert process.poll() is None, log.read_text()
                time.sleep(0.2)
            # Besides the ingester. A change may have been sent before there is a worker.
            wait_until(
                lambda: len(children(process.pid)) >= 4, "the JVM, its shell, Python's daemon and a worker", WAIT
            )
            below = [process.pid, *children(process.pid)]
            lines = [Path(f"/proc/{pid}/cmdline") for pid in below]
            files = list(scratch.rglob("*"))
            assert files
            assert holding(secrets, files) == []
            assert holding(secrets, lines) == []
        finally:
            process.terminate()
            process.wait(60)
        written = [file for file in events.rglob("*") if file.is_file()]
        assert written
        assert holding(secrets, [*written, log]) == []
        assert list(scratch.glob("dstream-spark-*")) == []


def sent(emulators: Emulators) -> bool:
    """Whether the offset of the table is stored, so that a worker has done its work."""
    with emulators.login.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM sys.tables WHERE name = 'cdc_offsets'")
        if cursor.fetchone()[0] == 0:
            return False
        cursor.execute(
            "SELECT COUNT(*) FROM dbo.cdc_offsets WHERE table_name = 'dbo.Customers' AND last_lsn IS NOT NULL"
        )
        return bool(cursor.fetchone()[0])
