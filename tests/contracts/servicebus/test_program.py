"""`python -m emulators.servicebus`: starts, says where it is, serves both protocols, stops when told."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from emulators.servicebus.__main__ import main

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
        with urllib.request.urlopen(f"http://127.0.0.1:{facts['http_port']}/health", timeout=5) as answer:
            assert answer.status == 200
        program.send_signal(number)
        _, errors = program.communicate(timeout=10)
    assert (program.returncode, errors) == (0, "")


def test_a_wrong_option_of_an_entity_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--port", "0", "--http-port", "0", "--queue", "q:sessions"]) == 1
    assert "q:sessions" in capsys.readouterr().err
