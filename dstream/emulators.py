"""`dstream emulators`: both emulators as processes, for development. The demo runs on them, too.

They keep their data only while they run, unless Service Bus is given a directory for it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from common.errors import ConfigurationError, PermanentError
from dstream.children import Process, start, stop_all

USER, PASSWORD = "sa", "DStream-local-1"
SQLSERVER_PORT, AMQP_PORT, MANAGEMENT_PORT = 1433, 5672, 5300
"""The ports of the real services and of Microsoft's emulator: the example configuration has them."""
SHOP = "shop"
_MISUSED = 2
"""argparse's exit status for bad usage."""
_STOP_SECONDS = 10.0
_OPTIONS = {
    "--fault": "--bus-fault",
    "--config": "--bus-config",
    "--data": "--bus-data",
    "--credits-per-second": "--bus-credits",
}
"""Of the Service Bus emulator, each with the one of `dstream emulators`."""
_TAKEN = "another program has that port"
"""Begins an emulator's second line, which names its own options."""
_OTHER_PORTS = f"{_TAKEN}: --sqlserver-port, --bus-port and --management-port choose others (0: any that is free)"

_SHOP_TABLES = (
    "CREATE SCHEMA sales",
    "CREATE TABLE dbo.Persons (ID INT NOT NULL PRIMARY KEY, FirstName NVARCHAR(50) NULL, LastName NVARCHAR(50) NULL)",
    "CREATE TABLE sales.Orders (OrderId INT NOT NULL PRIMARY KEY, PersonId INT NOT NULL, Total DECIMAL(10,2) NOT NULL)",
    "EXEC sys.sp_cdc_enable_db",
    "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Persons', @role_name = NULL",
    "EXEC sys.sp_cdc_enable_table @source_schema = N'sales', @source_name = N'Orders', @role_name = NULL",
)


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the emulators listen; 0: any free port."""

    sqlserver: int = 0
    amqp: int = 0
    management: int = 0


@dataclass(frozen=True, slots=True)
class Bus:
    """Further options of the Service Bus emulator; see `python -m emulators.servicebus --help`."""

    config: Path | None = None
    data: Path | None = None
    credits_per_second: int | None = None
    faults: Sequence[str] = ()

    @property
    def arguments(self) -> list[str]:
        """Its command line."""
        single = (("config", self.config), ("data", self.data), ("credits-per-second", self.credits_per_second))
        return [f"--{name}={value}" for name, value in single if value is not None] + [
            f"--fault={fault}" for fault in self.faults
        ]


STANDARD = Ports(SQLSERVER_PORT, AMQP_PORT, MANAGEMENT_PORT)


@dataclass(frozen=True, slots=True)
class Login:
    """How any client connects to the database."""

    host: str
    port: int
    user: str
    password: str
    database: str

    def connect(self) -> Any:
        """A pymssql connection with autocommit, as any application opens it."""
        import pymssql

        return pymssql.connect(
            server=self.host,
            port=str(self.port),
            user=self.user,
            password=self.password,
            database=self.database,
            autocommit=True,
            appname="an application",
            login_timeout=30,
            timeout=120,
        )

    def refusal(self) -> str | None:
        """Why the server accepts no connection at present; None if it does."""
        import pymssql

        try:
            self.connect().close()
        except pymssql.Error as error:
            return str(error)
        return None


class Emulators:
    """Both emulators, each in a process of its own: it has a core, and its death ends nothing else."""

    def __init__(
        self,
        *,
        database: str,
        capture_interval: float,
        ports: Ports = Ports(),
        tls: bool = False,
        faults: Sequence[str] = (),
        bus: Bus = Bus(),
    ) -> None:
        """`tls`: SQL Server offers encryption, and its connection string requires it. `faults`: of SQL Server; they act from `begin_faults` on."""
        self._directory = tempfile.TemporaryDirectory(prefix="dstream-emulators-") if tls else None
        self._faults = faults
        self._commands: Mapping[str, list[str]] = {
            "sqlserver": [
                *("--port", str(ports.sqlserver), "--user", USER, "--password", PASSWORD),
                *("--database", database, "--capture-interval", str(capture_interval)),
                *(("--tls", "--tls-ca-out", str(self.authority)) if tls else ()),
                *(f"--fault={fault}" for fault in faults),
                *(("--faults-wait",) if faults else ()),
            ],
            "servicebus": ["--port", str(ports.amqp), "--http-port", str(ports.management), *bus.arguments],
        }
        self._database = database
        self._children: dict[str, Process] = {}
        self._addresses: dict[str, dict[str, Any]] = {}

    def start(self) -> None:
        """Start both and wait until they listen.

        Raises PermanentError when one cannot start (its port is taken), and ConfigurationError when it does not accept its options.
        """
        for name, arguments in self._commands.items():
            command = [sys.executable, "-m", f"emulators.{name}", *arguments, "--json", "--stop-with-stdin"]
            self._children[name] = start(command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        for name, child in self._children.items():
            assert child.stdout is not None
            announcement = child.stdout.readline()
            if not announcement:
                raise self._failed(name, child)
            self._addresses[name] = json.loads(announcement)
            threading.Thread(target=_pass_on, args=(child,), name=f"{name}-output", daemon=True).start()

    def _failed(self, name: str, child: Process) -> ConfigurationError | PermanentError:
        """Why one of them did not start. Stops both."""
        assert child.stderr is not None
        said = child.stderr.read().decode(errors="replace").strip() or "it printed no reason"
        misused = child.wait() == _MISUSED
        self.stop()
        if misused:  # argparse prints the usage first
            complaint = said.rpartition("error: ")[2].removeprefix("argument ")
            option, colon, rest = complaint.partition(":")
            if name == "servicebus" and option in _OPTIONS:
                complaint = f"{_OPTIONS[option]}{colon}{rest}"
            return ConfigurationError([f"starting the {name} emulator: {complaint}"])
        lines = [line for line in said.splitlines() if not line.startswith(_TAKEN)]
        why = lines[-1] if lines[-1].startswith("starting the ") else f"starting the {name} emulator: {lines[-1]}"
        return PermanentError(why, hint=_OTHER_PORTS if _TAKEN in said else None)

    def stop(self) -> None:
        """Stop both; does nothing when they have ended."""
        stop_all(self._children.values(), _STOP_SECONDS)
        for child in self._children.values():
            for stream in (child.stdin, child.stdout, child.stderr):
                if stream is not None:
                    stream.close()
        self._children.clear()
        if self._directory is not None:
            self._directory.cleanup()

    def begin_faults(self) -> None:
        """Let the faults act from now on: what came before had to succeed."""
        pipe = self._children["sqlserver"].stdin
        if self._faults and pipe is not None:
            pipe.write(b"begin\n")
            pipe.flush()

    def pid(self, name: str) -> int:
        """The process id of an emulator."""
        return self._children[name].pid

    def died(self) -> str | None:
        """The name of an emulator that has ended by itself."""
        return next((name for name, child in self._children.items() if child.poll() is not None), None)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def login(self) -> Login:
        """How an application connects to the database."""
        return Login("localhost", self._addresses["sqlserver"]["port"], USER, PASSWORD, self._database)

    @property
    def db_connection_string(self) -> str:
        """For `ingester.db_connection_string`."""
        port = self._addresses["sqlserver"]["port"]
        encryption = "disable" if self.authority is None else f"mandatory&certificate={quote(str(self.authority))}"
        return f"sqlserver://{USER}:{PASSWORD}@localhost:{port}?database={self._database}&encrypt={encryption}"

    @property
    def authority(self) -> Path | None:
        """The certificate that signed SQL Server's; None without TLS."""
        return Path(self._directory.name) / "authority.pem" if self._directory is not None else None

    @property
    def bus_connection_string(self) -> str:
        """For the queue, `router.source` and `router.output`."""
        return str(self._addresses["servicebus"]["connection_string"])

    @property
    def management_endpoint(self) -> str:
        """For `management_endpoint`."""
        return f"http://localhost:{self._addresses['servicebus']['http_port']}"


def _pass_on(child: Process) -> None:
    """What an emulator prints on its standard error is printed on ours."""
    assert child.stderr is not None
    try:
        for line in child.stderr:
            print(line.decode(errors="replace"), end="", file=sys.stderr)
    except ValueError:  # closed by stop()
        return


def run(
    *,
    stop: threading.Event,
    tls: bool = False,
    faults: Sequence[str] = (),
    bus: Bus = Bus(),
    ports: Ports = STANDARD,
) -> int:
    """Run the emulators until `stop`. A small database to experiment with is created before SQL Server's faults begin."""
    with Emulators(database=SHOP, capture_interval=1.0, ports=ports, tls=tls, faults=faults, bus=bus) as emulators:
        _create_shop(emulators.login)
        print(_welcome(emulators, bus.data, as_it_is=ports == STANDARD), flush=True)
        emulators.begin_faults()
        while not stop.wait(0.2):
            if (name := emulators.died()) is not None:
                raise PermanentError(f"running the emulators: {name} ended by itself")
    return 0


def _create_shop(login: Login) -> None:
    with login.connect() as connection, connection.cursor() as cursor:
        for statement in _SHOP_TABLES:
            cursor.execute(statement)


_AS_IT_IS = "dstream.hcl works with them as it is"
_ONCE_SET = (
    "dstream.hcl works with them once these variables are set: DSTREAM_DB_CONNECTION_STRING to the address of SQL Server, "
    "DSTREAM_INGEST_CONNECTION_STRING and DSTREAM_ROUTER_CONNECTION_STRING to that of Service Bus, DSTREAM_MANAGEMENT_ENDPOINT to that of its "
    "management"
)


def _welcome(emulators: Emulators, data: Path | None, *, as_it_is: bool) -> str:
    """`as_it_is`: whether they have the addresses that the example configuration names."""
    kept = "They keep their data only while they run." if data is None else f"Service Bus keeps its data in {data}."
    return f"""\
The emulators are running, and {_AS_IT_IS if as_it_is else _ONCE_SET}. Press Ctrl-C to stop.

  SQL Server    {emulators.db_connection_string}
                database {SHOP}, tables dbo.Persons and sales.Orders under CDC
  Service Bus   {emulators.bus_connection_string}
  management    {emulators.management_endpoint} (open it in a browser to see what it holds)

{kept}"""
