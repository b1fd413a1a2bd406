"""An identity in place of a password, from the endpoint that gives tokens to Spark's workers: changes arrive, and no task carries a token."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dstream.demo.processes import environment, write_config
from dstream.demo.schema import create
from dstream.emulators import Emulators, Login
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.server import SqlServerEmulator
from emulators.sqlserver.tls import TlsSettings
from tests.worlds.identities import TokenEndpoint
from tests.worlds.standalone import children

PASSWORD, IDENTITY, TOKEN = "test-Password-1", "dstream-prod", "ey.J0eXAi.planted-token"
WAIT = 120.0
_RIGHTS = (
    f"CREATE USER [{IDENTITY}] FROM EXTERNAL PROVIDER",
    f"ALTER ROLE db_owner ADD MEMBER [{IDENTITY}]",
    "INSERT INTO dbo.Customers VALUES (1, N'Ada', NULL, 0, 1)",
)


def _committed(login: Login) -> bool:
    """Whether a worker has sent the change, and moved the offset."""
    with login.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM sys.tables WHERE name = 'cdc_offsets'")
        if cursor.fetchone()[0] == 0:
            return False
        cursor.execute(
            "SELECT COUNT(*) FROM dbo.cdc_offsets WHERE table_name = 'dbo.Customers' AND last_lsn IS NOT NULL"
        )
        return bool(cursor.fetchone()[0])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.timeout(300)
def test_workers_log_in_as_the_identity_with_tokens_of_their_own(tmp_path: Path) -> None:
    tls = TlsSettings.self_made()
    authority = tmp_path / "authority.pem"
    authority.write_text(tls.authority)
    engine = build_engine(users={"sa": PASSWORD}, databases=["demo"], capture_interval=0.5, tokens={TOKEN: IDENTITY})
    with (
        contextlib.closing(engine),
        SqlServerEmulator(engine, tls=tls, federated=True) as server,
        contextlib.closing(TokenEndpoint()) as endpoint,
        Emulators(database="unused", capture_interval=0.5) as others,
    ):
        endpoint.token = TOKEN
        login = Login("127.0.0.1", server.port, "sa", PASSWORD, "demo")
        with login.connect() as connection, connection.cursor() as cursor:
            create(login)
            for statement in _RIGHTS:
                cursor.execute(statement)
        address = (
            f"Server=localhost,{server.port};Database=demo;certificate={authority};"
            "Authentication=Active Directory Managed Identity"
        )
        config = write_config(tmp_path, others, "500ms", locks='type = "local"', tasks=2)
        variables = {**os.environ, **environment(others), **endpoint.environment}
        variables["DSTREAM_DB_CONNECTION_STRING"] = address
        log = tmp_path / "ingester.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "dstream", "ingester", "--config", str(config)],
                stdout=out,
                stderr=out,
                env=variables,
            )
        try:
            deadline = time.monotonic() + WAIT
            while not _committed(login):
                assert time.monotonic() < deadline, log.read_text()
                assert process.poll() is None, log.read_text()
                time.sleep(0.2)
            for number in [process.pid, *children(process.pid)]:
                with contextlib.suppress(OSError):  # it has ended meanwhile
                    found = Path(f"/proc/{number}/environ").read_bytes() + Path(f"/proc/{number}/cmdline").read_bytes()
                    assert TOKEN.encode() not in found
        finally:
            process.terminate()
            assert process.wait(60) == 0
        assert len(endpoint.asked) >= 2, "the driver and a worker"
        assert TOKEN not in log.read_text()
