"""A named instance is found by what the SQL Server Browser tells of it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from pydantic import SecretStr

from common.errors import ConnectionLost
from common.sqladdress import SqlAddress
from emulators.sqlserver.server import SqlServerEmulator
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.login import browser as sqlserver_browser
from tests.fakes.sql_engine import ScriptedEngine

Browsers = Callable[[str], list[bytes]]


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Iterator[Browsers]:
    """A service that answers each question with this text; the questions."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as service:
        service.bind(("127.0.0.1", 0))
        monkeypatch.setattr(sqlserver_browser, "_PORT", service.getsockname()[1])
        asked: list[bytes] = []
        over = threading.Event()

        def serve(text: str) -> None:
            service.settimeout(0.1)
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    question, client = service.recvfrom(100)
                    asked.append(question)
                    service.sendto(b"\x05" + len(text).to_bytes(2, "little") + text.encode(), client)

        threads: list[threading.Thread] = []

        def begin(text: str) -> list[bytes]:
            threads.append(threading.Thread(target=serve, args=(text,)))
            threads[-1].start()
            return asked

        yield begin
        over.set()
        for thread in threads:
            thread.join()


def there(seconds: int) -> SqlAddress:
    options = {"connect_timeout": str(seconds)}
    return SqlAddress("127.0.0.1", None, "SHOP", "demo", "sa", SecretStr("secret"), None, options)


def test_an_instance_is_reached_at_the_port_that_it_is_told_to_have(browser: Browsers) -> None:
    engine = ScriptedEngine()
    engine.on("none")
    with SqlServerEmulator(engine) as server:
        asked = browser(f"ServerName;HOST;InstanceName;SHOP;IsClustered;No;Version;16.0.1000.6;tcp;{server.port};;")
        with contextlib.closing(Connection(there(10))) as connection:
            assert connection.result_sets("none") == []
    assert asked == [b"\x04SHOP\0"]


@pytest.mark.parametrize("text", ["ServerName;HOST;InstanceName;SHOP;np;pipe;;", "", "tcp;;;", ";;;"])
def test_an_instance_without_a_port_is_told_as_such(browser: Browsers, text: str) -> None:
    asked = browser(text)
    with pytest.raises(
        ConnectionLost, match=r"127\.0\.0\.1\\SHOP: the SQL Server Browser does not report the port"
    ) as told:
        Connection(there(1)).rows("none")
    assert "enable TCP/IP" in str(told.value.hint)
    assert len(asked) <= 10, "with a pause between the questions"


def test_a_browser_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        monkeypatch.setattr(sqlserver_browser, "_PORT", silent.getsockname()[1])
        with pytest.raises(ConnectionLost, match="UDP 1434"):
            Connection(there(1)).rows("none")
