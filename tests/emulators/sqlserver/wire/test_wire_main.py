"""The server as a program: says where it listens, serves, ends cleanly on a signal. The engine behind it is a scripted one."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytds
import pytest

from emulators.sqlserver import __main__ as program
from emulators.sqlserver.server import SqlServerEmulator
from tests.emulators.sqlserver.wire.raw_client import Client
from tests.fakes.sql_engine import ScriptedEngine

_PROGRAM = """
import sys, types
from tests.fakes.sql_engine import ScriptedEngine

def build_engine(*, users, databases, capture_interval, data_dir, capture, tokens):
    assert capture.first_entry
    assert (dict(users), list(databases), capture_interval, data_dir, tokens) == ({"sa": "secret"}, ["demo"], 0.5, None, {})
    engine = ScriptedEngine()
    engine.close = lambda: print("closed", flush=True)
    return engine

build = types.ModuleType("emulators.sqlserver.build")
build.build_engine = build_engine
sys.modules[build.__name__] = build
from emulators.sqlserver.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
_ARGUMENTS = ["--port", "0", "--password", "secret", "--capture-interval", "0.5", "--json"]


@pytest.fixture
def running() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", _PROGRAM, *_ARGUMENTS], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_program_serves_until_a_signal_and_then_closes_its_engine(
    running: subprocess.Popen[str], number: signal.Signals
) -> None:
    assert running.stdout is not None
    address = json.loads(running.stdout.readline())
    assert (address["host"], address["user"], address["databases"]) == ("127.0.0.1", "sa", ["demo"])
    with pytds.connect("127.0.0.1", port=address["port"], user="sa", password="secret"):
        running.send_signal(number)
        assert running.wait(60) == 0
    assert running.stdout.read() == "closed\n"


def test_with_tls_the_authority_is_there_before_the_address_is_told(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    arguments = [*_ARGUMENTS, "--tls", "--tls-ca-out", str(authority)]
    with subprocess.Popen([sys.executable, "-c", _PROGRAM, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        client = Client(port)
        with client.socket:
            client.encrypt(authority.read_text(), 1).logged_in()
            assert client.tls_version == "TLSv1.2"
        process.terminate()


@pytest.mark.parametrize("arguments", [["--tls-ca-out", "ca.pem"], ["--tls", "--tls-ca-out", "/nowhere/ca.pem"]])
def test_an_authority_that_cannot_be_written_is_said_in_a_line(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *_ARGUMENTS, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "ca.pem" in done.stderr or "--tls" in done.stderr


def refused(*arguments: str) -> str:
    """What the program says where it does not start."""
    command = [sys.executable, "-c", _PROGRAM, *_ARGUMENTS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_taken_port_is_said_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert refused("--port", str(port)).splitlines() == [
            f"starting the SQL Server emulator: 127.0.0.1 port {port}: address already in use",
            "another program has that port: --port chooses another (0: any that is free)",
        ]


@pytest.mark.parametrize("host", ["192.0.2.1", "no host"])
def test_an_address_that_is_not_this_machines_is_said_in_a_line(host: str) -> None:
    (said,) = refused("--host", host).splitlines()
    assert said.startswith(f"starting the SQL Server emulator: {host} port 0: ")


@pytest.mark.parametrize("port", ["99999", "-1", "many"])
def test_what_is_not_a_port_is_bad_usage(port: str) -> None:
    assert f"'{port}': a port is a number from 0 to 65535" in refused(f"--port={port}")


def test_people_get_a_sentence_and_several_databases() -> None:
    arguments = program.parse_arguments(["--password", "x", "--database", "a", "--database", "b"])
    assert arguments.database == ["a", "b"]
    server = SqlServerEmulator(ScriptedEngine(), port=1433)
    told = program.announcement(server, arguments, arguments.database)
    assert told == "SQL Server emulator listening on 127.0.0.1:1433, databases: a, b"
