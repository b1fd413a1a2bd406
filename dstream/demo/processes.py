"""The services as a user runs them: `dstream ingester` and `dstream router` as processes, with a configuration file and a log."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from textwrap import indent
from typing import Protocol

from dstream.children import Process, stage_command, start_stage, stop_all
from dstream.demo.schema import TABLES

_CONFIG = """\
ingester {{
    db_type              = "sqlserver"
    db_connection_string = "{{{{ env("DSTREAM_DB_CONNECTION_STRING") }}}}"

    poll_interval_defaults {{
        poll_interval     = "{poll_interval}"
        max_poll_interval = "2s"
    }}

    queue {{
        type                = "azure_service_bus"
        name                = "ingest-queue"
        connection_string   = "{{{{ env("DSTREAM_INGEST_CONNECTION_STRING") }}}}"
        management_endpoint = "{management_endpoint}"
    }}

    locks {{
        {locks}
    }}

    tables = [{tables}]
    {more}

    spark {{
        master = "local[{tasks}]"
    }}
}}

router {{
    {routing}

    source {{
        type                = "azure_service_bus"
        connection_string   = "{{{{ env("DSTREAM_PUBLISHER_CONNECTION_STRING") }}}}"
        management_endpoint = "{management_endpoint}"
    }}

    output {{
{output}
    }}
}}
"""


_TOPICS = """\
type                = "azure_service_bus"
connection_string   = "{{{{ env("DSTREAM_PUBLISHER_CONNECTION_STRING") }}}}"
management_endpoint = "{management_endpoint}"
"""


class Addresses(Protocol):
    """The addresses that the services connect to."""

    @property
    def db_connection_string(self) -> str: ...

    @property
    def bus_connection_string(self) -> str: ...

    @property
    def management_endpoint(self) -> str: ...


def write_config(
    folder: Path,
    addresses: Addresses,
    poll_interval: str,
    *,
    locks: str = 'type = "local"',
    more: str = "",
    routing: str = "",
    tasks: int = 4,
    output: str | None = None,
) -> Path:
    """Write a `dstream.hcl` for the demo's tables; secrets stay in the environment.

    `locks`: the content of that block. `more`, `routing`: further settings of the ingester and of the router. `tasks`: how many Spark runs at
    once. `output`: the settings of that block; None: topics on the same namespace.
    """
    path = folder / "dstream.hcl"
    path.write_text(
        _CONFIG.format(
            poll_interval=poll_interval,
            management_endpoint=addresses.management_endpoint,
            tables=", ".join(f'"{table.key}"' for table in TABLES),
            locks=locks,
            more=more,
            routing=routing,
            tasks=tasks,
            output=indent(output or _TOPICS.format(management_endpoint=addresses.management_endpoint), " " * 8),
        )
    )
    return path


def environment(addresses: Addresses) -> dict[str, str]:
    """The variables that the configuration reads."""
    return {
        "DSTREAM_DB_CONNECTION_STRING": addresses.db_connection_string,
        "DSTREAM_INGEST_CONNECTION_STRING": addresses.bus_connection_string,
        "DSTREAM_PUBLISHER_CONNECTION_STRING": addresses.bus_connection_string,
    }


class Service:
    """One stage as a process. When started again it appends to the same log."""

    def __init__(self, stage: str, config: Path, variables: Mapping[str, str], log: Path) -> None:
        self.stage = stage
        self.log = log
        self._command = stage_command(stage, ["--config", str(config)])
        self._variables = variables
        self._process: Process | None = None

    def start(self) -> None:
        """Start it; returns at once. It stops when this process ends, however that ends."""
        with self.log.open("ab") as log:
            self._process = start_stage(self._command, self._variables, output=log.fileno())

    def died(self) -> int | None:
        """Its exit status, if it has ended."""
        return None if self._process is None else self._process.poll()

    @property
    def running(self) -> bool:
        """Whether it was started, was not stopped, and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id; it must have been started."""
        assert self._process is not None
        return self._process.pid

    def wait(self, timeout: float) -> int:
        """Wait until it ends by itself, and return its exit status. Raises subprocess.TimeoutExpired."""
        assert self._process is not None
        return self._process.wait(timeout)

    def stop(self, timeout: float = 30) -> int:
        """Send SIGTERM, kill it if it does not stop in time, and return the exit status."""
        return self._end(timeout, signal.SIGTERM)

    def kill(self) -> int:
        """Send SIGKILL, as if the machine had lost power."""
        return self._end(10, signal.SIGKILL)

    def _end(self, timeout: float, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        stop_all([process], timeout, how=how)
        return process.wait()

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])
