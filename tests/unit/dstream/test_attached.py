"""The demo against services that run elsewhere: whom it connects to, when it gives up, and what it says."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from common.errors import ConfigurationError, PermanentError
from common.names import Origin
from dstream.demo.attached import progress, reached, target
from dstream.demo.ledger import Ledger
from dstream.demo.schema import CUSTOMERS, ORDERS, TABLES
from dstream.demo.verdict import Received, judge, of_an_earlier_workload
from dstream.emulators import Login

BUS = "Endpoint=sb://servicebus;SharedAccessKeyName=k;SharedAccessKey=SECRETKEY;UseDevelopmentEmulator=true;"
TABLES_TEXT = ", ".join(f'"{table.key}"' for table in TABLES)
DB = "sqlserver://sa:PASSWORD@sqlserver:1433?database=demo&encrypt=disable"


def configuration(
    folder: Path, *, tables: str = TABLES_TEXT, bus: str = f'connection_string = "{BUS}"', db: str = DB
) -> Path:
    path = folder / "dstream.hcl"
    path.write_text(
        f"""\
ingester {{
  db_type = "sqlserver"
  db_connection_string = "{db}"
  tables = [{tables}]
  queue {{
    name = "q"
    connection_string = "{BUS}"
  }}
  locks {{ type = "local" }}
}}
router {{
  subscriptions = ["first", "second"]
  source {{ connection_string = "{BUS}" }}
  output {{ {bus} }}
}}
"""
    )
    return path


def test_addresses_names_and_subscription_come_from_the_configuration(tmp_path: Path) -> None:
    found = target(configuration(tmp_path), {})
    assert found.login == Login("sqlserver", 1433, "sa", "PASSWORD", "demo")
    assert (found.bus, found.subscription, found.origin) == (BUS, "first", Origin("sqlserver", "demo"))
    assert "SECRETKEY" not in repr(found)
    assert "PASSWORD" not in repr(found)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"tables": '"Persons"'}, "ingester.tables must be the demo's tables"),
        ({"bus": 'namespace = "n.servicebus.windows.net"'}, "router.output must have a connection_string"),
        (
            {"db": "Server=s;Database=demo;Authentication=ActiveDirectoryManagedIdentity"},
            "ingester.db_connection_string must have a user",
        ),
    ],
)
def test_a_configuration_that_is_not_the_demos_is_refused(tmp_path: Path, change: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        target(configuration(tmp_path, **change), {})
    assert problem in str(raised.value)


class Refusing(Login):
    """Refuses `times` times."""

    times = 0

    def refusal(self) -> str | None:
        type(self).times -= 1
        return "connection refused" if type(self).times >= 0 else None


def test_a_server_that_starts_later_is_waited_for_and_one_that_never_does_is_reported() -> None:
    login = Refusing("sqlserver", 1433, "sa", "p", "demo")
    Refusing.times = 1
    assert reached(login, threading.Event(), seconds=60)
    Refusing.times = 2
    with pytest.raises(PermanentError, match="sqlserver:1433: refused for 0 s: connection refused"):
        reached(login, threading.Event(), seconds=0)


def test_a_stop_ends_the_wait() -> None:
    stop = threading.Event()
    stop.set()
    Refusing.times = 100
    assert not reached(Refusing("sqlserver", 1433, "sa", "p", "demo"), stop, seconds=60)


def test_messages_of_an_earlier_run_are_known_by_their_version_and_no_others_are() -> None:
    def body(operation: str, version: object) -> bytes:
        return json.dumps({"metadata": {"OperationType": operation}, "data": {"Version": version}}).encode()

    assert of_an_earlier_workload(body("Delete", 7), 7)
    assert not of_an_earlier_workload(body("Insert", 8), 7)
    for damaged in (b"{", body("Insert", None), b'{"data": {}}'):
        assert not of_an_earlier_workload(damaged, 7)
        assert judge(Ledger(), {ORDERS: [Received(damaged, "", 0.0)]}, [ORDERS]).total("wrong") == 1


def test_progress_is_one_line() -> None:
    assert progress({CUSTOMERS: 3, ORDERS: 4}, {ORDERS: 5}) == "committed 7, delivered 5, behind 2"
