"""`dstream emulators`: what it asks of the programs, and that its connection strings work, encrypted and with faults too."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusQuotaExceededError

from common.errors import ConfigurationError, PermanentError, TransientError
from common.sqladdress import SqlAddress
from dstream import emulators as local
from dstream.children import start
from dstream.emulators import Bus, Emulators, Ports
from ingester.sqlserver.connection import Connection

ROOT = Path(__file__).parents[3]


@contextlib.contextmanager
def connected(emulators: Emulators) -> Iterator[Connection]:
    connection = Connection(SqlAddress.parse(emulators.db_connection_string), proven=True)
    try:
        yield connection
    finally:
        connection.close()


def test_with_tls_the_connection_string_verifies_the_server() -> None:
    with Emulators(database="shop", capture_interval=1, tls=True) as emulators:
        address = SqlAddress.parse(emulators.db_connection_string)
        authority = Path(unquote(address.options["server_certificate"]))
        assert address.encrypt == "mandatory"
        assert authority.read_text().startswith("-----BEGIN CERTIFICATE-----")
        with connected(emulators) as connection:
            assert connection.rows("SELECT 1") == [(1,)]
    assert not authority.exists()


def test_faults_begin_when_they_are_told_to() -> None:
    with (
        Emulators(database="shop", capture_interval=1, faults=["deadlock_victim:1,SELECT 42"]) as emulators,
        connected(emulators) as connection,
    ):
        assert connection.rows("SELECT 42") == [(42,)]
        emulators.begin_faults()
        with pytest.raises(TransientError, match="1205"):
            _until_it_fails(connection)
        assert connection.rows("SELECT 42") == [(42,)]


def _until_it_fails(connection: Connection) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        connection.rows("SELECT 42")


def test_a_fault_that_does_not_exist_is_a_wrong_usage_and_the_others_are_named() -> None:
    with (
        pytest.raises(ConfigurationError, match="no fault 'sunspots'; the faults are connection_cut_after:BYTES"),
        Emulators(database="shop", capture_interval=1, faults=["sunspots"]),
    ):
        pass


def test_service_bus_is_given_its_entities_its_directory_and_its_faults(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [{"Name": "orders"}]}]}}')
    bus = Bus(config, tmp_path / "kept", 1000, ["entity_full:orders"])
    with (
        Emulators(database="shop", capture_interval=1, bus=bus) as emulators,
        ServiceBusClient.from_connection_string(emulators.bus_connection_string, retry_total=0) as client,
        client.get_queue_sender("orders") as sender,
        pytest.raises(ServiceBusQuotaExceededError),
    ):
        sender.send_messages(ServiceBusMessage("too much"))
    assert list((tmp_path / "kept").iterdir())


def test_a_mistake_in_the_entities_file_is_told_as_the_emulator_tells_it(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queue": []}]}}')
    with (
        pytest.raises(ConfigurationError, match=r"servicebus emulator: (.|\n)*Queue"),
        Emulators(database="shop", capture_interval=1, bus=Bus(config)),
    ):
        pass


@pytest.mark.parametrize(
    ("bus", "said"),
    [
        (
            Bus(faults=("mute:foo",)),
            "starting the servicebus emulator: --bus-fault: the fault mute is written mute:STAGE",
        ),
        (
            Bus(Path("/nope.json")),
            "starting the servicebus emulator: reading the configuration: /nope.json: No such file or directory",
        ),
    ],
)
def test_a_mistake_in_an_option_names_the_option_of_dstream_and_nothing_twice(bus: Bus, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused, Emulators(database="shop", capture_interval=1, bus=bus):
        pass
    assert str(refused.value).startswith(said)
    assert str(refused.value).count("/nope.json") <= 1


@pytest.mark.parametrize(
    ("emulator", "ports"),
    [
        ("SQL Server", lambda port: Ports(sqlserver=port)),
        ("Service Bus", lambda port: Ports(amqp=port)),
        ("Service Bus", lambda port: Ports(management=port)),
    ],
)
def test_a_taken_port_is_said_with_the_options_that_choose_others(emulator: str, ports: Callable[[int], Ports]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with (
            pytest.raises(PermanentError) as refused,
            Emulators(database="shop", capture_interval=1, ports=ports(taken)),
        ):
            pass
    assert refused.value.message.startswith(f"starting the {emulator} emulator: ")
    assert str(taken) in refused.value.message
    assert "already in use" in refused.value.message
    assert "\n" not in refused.value.message
    assert refused.value.hint is not None
    assert "--sqlserver-port, --bus-port and --management-port choose others" in refused.value.hint


def test_of_a_traceback_the_last_line_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    emulators = Emulators(database="shop", capture_interval=1)
    broken = [sys.executable, "-c", "raise OverflowError('too much')"]
    monkeypatch.setattr(local, "start", lambda _, **pipes: start(broken, **pipes))
    with pytest.raises(PermanentError, match="starting the sqlserver emulator: OverflowError: too much"):
        emulators.start()


def test_on_other_ports_the_variables_of_the_example_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    stop = threading.Event()
    stop.set()
    assert local.run(stop=stop, ports=Ports()) == 0
    told = capsys.readouterr().out
    assert "as it is" not in told
    for name in ("DB", "INGEST", "ROUTER"):
        assert f"DSTREAM_{name}_CONNECTION_STRING" in told
    assert "DSTREAM_MANAGEMENT_ENDPOINT" in told


def test_the_shop_is_there_before_any_fault_and_is_said_with_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    stop = threading.Event()
    stop.set()
    assert local.run(stop=stop, faults=["login_refused_for:60"], ports=Ports()) == 0
    told = capsys.readouterr().out
    assert "database shop, tables dbo.Persons and sales.Orders under CDC" in told
    assert "&encrypt=disable" in told


ORPHANED = """
import time
from dstream.emulators import Emulators
emulators = Emulators(database="shop", capture_interval=1, faults=[FAULTS])
emulators.start()
print(emulators.pid("sqlserver"), emulators.pid("servicebus"), flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("faults", ["", "'deadlock_victim:1,SELECT 42'"])
def test_emulators_end_with_who_started_them_however_that_ends(faults: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ORPHANED.replace("FAULTS", faults)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as owner:
        assert owner.stdout is not None
        pids = [int(each) for each in owner.stdout.readline().split()]
        assert len(pids) == 2
        owner.kill()
    deadline = time.monotonic() + 60
    while left := [pid for pid in pids if _runs(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
