"""`python -m emulators.servicebus`: starts, says where it is, serves both protocols, stops when told."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import ServiceBusAdministrationClient

from emulators.servicebus.__main__ import main
from emulators.servicebus.server import ServiceBusEmulator
from tests.emulators.servicebus.wire.administration import PlainHttp

OPTIONS = [
    "--port",
    "0",
    "--http-port",
    "0",
    "--queue",
    "q",
    "--queue",
    "s:session",
    "--topic",
    "t=a,b:session",
    "--json",
]


def test_what_the_management_api_creates_is_there_to_send_to() -> None:
    with ServiceBusEmulator() as emulator:
        at_http = emulator.connection_string.replace(f":{emulator.port};", f":{emulator.http_port};")
        with ServiceBusAdministrationClient.from_connection_string(at_http, transport=PlainHttp()) as admin:
            admin.create_queue("made", requires_session=True)
            with (
                ServiceBusClient.from_connection_string(emulator.connection_string, keep_alive=0) as client,
                client.get_queue_sender("made") as sender,
            ):
                sender.send_messages(ServiceBusMessage("x", session_id="s"))
            assert admin.get_queue_runtime_properties("made").active_message_count == 1
            admin.delete_queue("made")
        assert emulator.admin.queues() == []


def test_administration_needs_a_running_emulator() -> None:
    emulator = ServiceBusEmulator()
    with pytest.raises(RuntimeError, match="not running"):
        emulator.admin.queues()
    with emulator:
        assert emulator.admin.queues() == []
    with pytest.raises(RuntimeError, match="not running"):
        emulator.admin.queues()


def test_a_taken_port_is_an_error_and_leaves_nothing_behind() -> None:
    with ServiceBusEmulator() as first:
        for options in ({"port": first.port}, {"http_port": first.http_port}):
            with pytest.raises(OSError, match="in use"):
                ServiceBusEmulator(**options).start()  # type: ignore[arg-type]  # one port at a time, by name


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_stop(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "emulators.servicebus", *OPTIONS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        facts = json.loads(program.stdout.readline())
        with ServiceBusClient.from_connection_string(facts["connection_string"], keep_alive=0) as client:
            with client.get_queue_sender("q") as sender:
                sender.send_messages(ServiceBusMessage("hello"))
            with client.get_topic_sender("t") as sender:
                sender.send_messages(ServiceBusMessage("news", session_id="x"))
        with urllib.request.urlopen(f"{facts['management_endpoint']}/health", timeout=60) as answer:
            assert answer.status == 200
        program.send_signal(number)
        _, errors = program.communicate(timeout=60)
    assert (program.returncode, errors) == (0, "")


def test_each_address_is_announced_by_what_it_is_for(tmp_path: Path) -> None:
    """An administration client speaks HTTPS to the port of its connection string, a client AMQP."""
    authority = tmp_path / "ca.pem"
    encrypted = ["--tls", "--tls-ca-out", str(authority), "--tls-port", "0", "--https-port", "0"]
    command = [sys.executable, "-m", "emulators.servicebus", *OPTIONS, *encrypted]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        facts = json.loads(program.stdout.readline())
        administration = facts["administration_connection_string"]
        with ServiceBusAdministrationClient.from_connection_string(
            administration, connection_verify=str(authority)
        ) as admin:
            admin.create_queue("made")
        with (
            ServiceBusClient.from_connection_string(facts["connection_string"], keep_alive=0) as client,
            client.get_queue_sender("made") as sender,
        ):
            sender.send_messages(ServiceBusMessage("hello"))
        for name in ("amqp_address", "secure_amqp_address", "management_endpoint", "secure_management_endpoint"):
            address = urlsplit(facts[name] if "//" in facts[name] else f"//{facts[name]}")
            with socket.create_connection((address.hostname or "", address.port or 0), timeout=60):
                pass
        program.send_signal(signal.SIGTERM)
        _, errors = program.communicate(timeout=60)
    assert (program.returncode, errors) == (0, "")
    assert len({facts[name] for name in facts if name.endswith(("address", "endpoint"))}) == 4


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("--queue", "q:sessions", "'q:sessions': the only option of an entity is 'session'"),
        ("--queue", "-q", "expected one argument"),
        ("--queue", "a b", "the queue or topic name 'a b' is not allowed"),
        ("--topic", "t=a:x", "'a:x': the only option of an entity is 'session'"),
        ("--topic", "t=a/b", "the subscription name 'a/b' is not allowed"),
    ],
)
def test_a_wrong_option_is_named(capsys: pytest.CaptureFixture[str], option: str, value: str, complaint: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([option, value])
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["port", "http_port"])
def test_a_taken_port_is_named_with_the_way_out(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    with ServiceBusEmulator() as first:
        taken = getattr(first, kind)
        ports = {"port": 0, "http_port": 0} | {kind: taken}
        status = main(["--port", str(ports["port"]), "--http-port", str(ports["http_port"])])
    errors = capsys.readouterr().err
    assert status == 1
    assert str(taken) in errors
    assert "--http-port" in errors


def test_entities_asked_for_twice_with_other_settings_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--port", "0", "--http-port", "0", "--queue", "q", "--queue", "q:session"]) == 1
    assert "--queue q:session: 'q' is there with other settings" in capsys.readouterr().err
