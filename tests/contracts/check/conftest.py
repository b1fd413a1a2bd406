"""Both emulators in this process, a database and a queue of its own for each test, and `dstream check` as a user runs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus.management import ServiceBusAdministrationClient
from typer.testing import CliRunner

from common.azure_amqp.address import read_address
from common.servicebus.management import administration
from dstream.cli import app
from dstream.emulators import Login
from emulators.servicebus.server import ServiceBusEmulator
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.server import SqlServerEmulator

PASSWORD = "test-Password-1"
LIMITED, LIMITED_KEY = "NoManage", "no-manage-key"
SENDER, SENDER_KEY = "SendAlone", "send-alone-key"
LISTENER, LISTENER_KEY = "ListenAlone", "listen-alone-key"
_numbers = count(1)

_CONFIG = """\
ingester {{
    db_type              = "sqlserver"
    db_connection_string = "sqlserver://{user}:{password}@127.0.0.1:{port}?database={database}&encrypt=disable"
    queue {{
        name                = "{queue}"
        connection_string   = "{bus}"
        management_endpoint = "{management}"
        provision           = "{provision}"
        ordering            = "{ordering}"
    }}
    locks {{
        {locks}
    }}
    tables = [{tables}]
    {more}
}}

router {{
    provision     = "{provision}"
    subscriptions = [{subscriptions}]
    {more_of_router}
    source {{
        connection_string   = "{bus}"
        management_endpoint = "{management}"
    }}
    output {{
        connection_string   = "{bus}"
        management_endpoint = "{management}"
    }}
}}
"""


@dataclass(frozen=True)
class Report:
    """The exit status and the lines of a check."""

    status: int
    lines: list[str]

    def said(self, outcome: str, subject: str) -> str:
        """What the only line with this outcome says of `subject`."""
        found = self.each(outcome, subject)
        assert len(found) == 1, "\n".join(self.lines)
        return found[0]

    def each(self, outcome: str, subject: str) -> list[str]:
        """What the lines with this outcome say of `subject`."""
        begin = f"{outcome:<5} {subject}: "
        return [line.removeprefix(begin) for line in self.lines if line.startswith(begin)]


@dataclass
class Place:
    """A database with dbo.Persons under CDC, and a queue with sessions. `settings`: what the configuration says, to be changed."""

    login: Login
    folder: Path
    admin: ServiceBusAdministrationClient
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def queue(self) -> str:
        return str(self.settings["queue"])

    @property
    def topic(self) -> str:
        return f"127-0-0-1.{self.login.database.lower()}.persons.events"

    def execute(self, *statements: str) -> None:
        with self.login.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def make_queue(self, **options: Any) -> None:
        given = {"requires_session": True, "requires_duplicate_detection": True, **options}
        self.admin.create_queue(self.queue, **given)

    def make_topic(self, *subscriptions: str, **options: Any) -> None:
        self.admin.create_topic(self.topic, **{"requires_duplicate_detection": True, **options})
        for name in subscriptions:
            self.admin.create_subscription(self.topic, name)

    def written(self) -> Path:
        """The configuration, as the settings are now."""
        config = self.folder / "dstream.hcl"
        config.write_text(_CONFIG.format(**self.settings))
        return config

    def check(self, *arguments: str) -> Report:
        config = self.written()
        result = CliRunner().invoke(app, ["check", "--config", str(config), *arguments])
        output = result.stdout + result.stderr
        assert "Traceback" not in output
        assert PASSWORD not in output
        assert "SharedAccessKey=" not in output
        return Report(result.exit_code, output.splitlines())


@pytest.fixture(scope="package")
def engine() -> Iterator[SqlEngine]:
    made = build_engine(users={"sa": PASSWORD}, capture_interval=0.2)
    yield made
    made.close()


@pytest.fixture(scope="package")
def sqlserver(engine: SqlEngine) -> Iterator[SqlServerEmulator]:
    with SqlServerEmulator(engine) as running:
        yield running


@pytest.fixture(scope="package")
def servicebus() -> Iterator[ServiceBusEmulator]:
    keys = {"RootManageSharedAccessKey": "SAS_KEY_VALUE", LIMITED: LIMITED_KEY}
    keys |= {SENDER: SENDER_KEY, LISTENER: LISTENER_KEY}
    rights = {LIMITED: ("Send", "Listen"), SENDER: ("Send",), LISTENER: ("Listen",)}
    with ServiceBusEmulator(keys=keys, rights=rights) as running:
        yield running


@pytest.fixture
def place(
    engine: SqlEngine, sqlserver: SqlServerEmulator, servicebus: ServiceBusEmulator, tmp_path: Path
) -> Iterator[Place]:
    number = next(_numbers)
    database = f"Checked{number}"
    engine.create_database(database)
    login = Login("127.0.0.1", sqlserver.port, "sa", PASSWORD, database)
    management = f"http://127.0.0.1:{servicebus.http_port}"
    admin, _ = administration(read_address(servicebus.connection_string), management)
    made = Place(login, tmp_path, admin)
    made.settings = {
        "user": "sa",
        "password": PASSWORD,
        "port": sqlserver.port,
        "database": database,
        "queue": f"queue-{number}",
        "bus": servicebus.connection_string,
        "management": management,
        "provision": "create",
        "ordering": "table",
        "locks": 'type = "sqlserver"',
        "tables": '"Persons"',
        "subscriptions": '"sub1"',
        "more": "",
        "more_of_router": "",
    }
    made.execute(
        "CREATE TABLE dbo.Persons (ID INT NOT NULL PRIMARY KEY, FirstName NVARCHAR(50) NULL, LastName NVARCHAR(50) NULL)",
        "EXEC sys.sp_cdc_enable_db",
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Persons', @role_name = NULL",
    )
    yield made
    admin.close()
    made.execute(
        "IF EXISTS (SELECT 1 FROM sys.databases WHERE name = DB_NAME() AND is_cdc_enabled = 1) EXEC sys.sp_cdc_disable_db"
    )
