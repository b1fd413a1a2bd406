"""Every wait for a server that has stopped talking ends: at each step of a login, before an answer and in the middle of one.

Once silent for good, once with a byte now and then, which would keep a timeout for each read from ever running out.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import SecretStr

from common.errors import ConnectionLost
from common.sqladdress import SqlAddress
from emulators.sqlserver.faults import catalogue as faults
from emulators.sqlserver.server import SqlServerEmulator
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tls import TlsSettings
from ingester.source import ProbeRequest
from ingester.sqlserver import probe as sqlserver_probe
from ingester.sqlserver import source as sqlserver_source
from ingester.sqlserver import waiting as sqlserver_waiting
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.position import LogPosition, Lsn
from ingester.sqlserver.source import SqlServerSource
from tests.fakes.ingester import PERSONS
from tests.fakes.sql_engine import ScriptedEngine, rows_of

EVERYTHING = 1 << 40
BOUND = 60
"""Seconds after which a wait of one second counts as endless, however busy the machine is."""


class Tap:
    """A relay in front of a server. Of the answers on each connection it lets through so many bytes, then a byte now and then, or none."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.limits: dict[int, int] = {}
        """By the number of the connection, from 1."""
        self.questions: dict[int, int] = {}
        """How many messages of the client pass, by the number of the connection, which then ends."""
        self.trickles = False
        self.ended = threading.Event()
        self.accepted = 0
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self._run(self._accept)

    def close(self) -> None:
        self.ended.set()
        for one in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(BOUND)
        for one in [self._listener, *self._sockets]:
            one.close()

    def _run(self, what: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=what, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                self.accepted += 1
                server = socket.create_connection(("127.0.0.1", self._to))
                self._sockets += [client, server]
                self._run(self._questions, client, server, self.accepted)
                self._run(self._answers, server, client, self.accepted)

    def _questions(self, client: socket.socket, server: socket.socket, number: int) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while (data := client.recv(65536)) and passed < self.questions.get(number, EVERYTHING):
                server.sendall(data)
                passed += 1
        self._end(server)

    def _answers(self, server: socket.socket, client: socket.socket, number: int) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                while data and passed + len(data) > (limit := self.limits.get(number, EVERYTHING)):
                    now, data = data[: max(0, limit - passed)], data[max(0, limit - passed) :]
                    client.sendall(now)
                    passed += len(now)
                    if self.ended.wait(0.05):
                        return
                    self.limits[number] = max(limit, passed) + self.trickles
                client.sendall(data)
                passed += len(data)
        self._end(client)

    @staticmethod
    def _end(one: socket.socket) -> None:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def tls() -> TlsSettings:
    return TlsSettings.self_made()


@pytest.fixture
def server(tls: TlsSettings) -> Iterator[SqlServerEmulator]:
    engine = ScriptedEngine()
    engine.script("many", lambda *_: iter([rows_of({"n": SqlType("int")}, [[n] for n in range(20_000)])]))
    engine.on("none")
    with SqlServerEmulator(engine, tls=tls) as running:
        yield running


@pytest.fixture
def tap(server: SqlServerEmulator) -> Iterator[Tap]:
    with contextlib.closing(Tap(server.port)) as made:
        yield made


@pytest.fixture
def certificate(tls: TlsSettings, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("tls") / "authority.pem"
    path.write_text(tls.authority)
    return str(path)


def address(port: int, encrypt: str, certificate: str = "") -> SqlAddress:
    more = {"server_certificate": certificate} if certificate else {}
    options = {"connect_timeout": "1", **more}
    return SqlAddress("127.0.0.1", port, None, "demo", "sa", SecretStr("secret"), encrypt, options)  # type: ignore[arg-type]


def given_up(connection: Connection, sql: str = "none") -> str:
    """What is said of a statement that was not answered; the test fails where it waits for ever."""
    with ThreadPoolExecutor(1) as pool, contextlib.closing(connection):
        asked = pool.submit(connection.result_sets, sql)
        with pytest.raises(ConnectionLost) as raised:
            asked.result(BOUND)
    return str(raised.value)


def sent_until(tap: Tap, encrypt: str, certificate: str) -> None:
    """One whole login and statement, as a proof that the way is good when nothing is held back."""
    with contextlib.closing(Connection(address(tap.port, encrypt, certificate))) as connection:
        assert connection.result_sets("none") == []


STEPS = {"before PRELOGIN": 0, "in PRELOGIN": 20, "in TLS": 60, "at the login's end": 300}


@pytest.mark.parametrize("trickles", [False, True], ids=["silent", "trickling"])
@pytest.mark.parametrize(
    ("encrypt", "number", "step"),
    [
        *(("mandatory", 1, step) for step in STEPS if step != "at the login's end"),
        *(("mandatory", 2, step) for step in STEPS),
        ("disable", 1, "in PRELOGIN"),
        ("disable", 2, "at the login's end"),
    ],
)
def test_a_login_ends(tap: Tap, certificate: str, encrypt: str, step: str, number: int, trickles: bool) -> None:
    """`number`: of the connection, of which the first looks at the way and the second is the driver's."""
    sent_until(tap, encrypt, certificate)
    tap.limits[tap.accepted + number] = STEPS[step]
    tap.trickles = trickles
    assert "no answer within 1 s" in given_up(Connection(address(tap.port, encrypt, certificate)))


@pytest.mark.parametrize("encrypt", ["mandatory", "disable"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_connection_that_ends_at_any_question_of_a_login_or_behind_it_is_lost_and_opened_again(
    tap: Tap, certificate: str, encrypt: str, number: int
) -> None:
    """Also between the login and the first statement, where the driver raises errors of another kind."""
    for questions in range(8):
        tap.questions = {tap.accepted + number: questions}
        connection = Connection(address(tap.port, encrypt, certificate))
        with contextlib.suppress(ConnectionLost):
            assert connection.result_sets("none") == []
        tap.questions = {}
        assert connection.result_sets("none") == []
        connection.close()


@pytest.mark.parametrize(
    "fault",
    [
        *(faults.Mute(stage) for stage in ("accept", "prelogin", "tls", "login", "reading")),
        *(faults.Mute(stage, pattern="many") for stage in ("query", "answer")),
        faults.Mute("answer", octets=3_000, pattern="many"),
    ],
    ids=["accept", "prelogin", "tls", "login", "reading", "query", "answer", "rows"],
)
def test_a_server_that_falls_silent_at_any_stage_is_given_up_and_served_by_again(
    server: SqlServerEmulator, certificate: str, fault: faults.Mute
) -> None:
    connection = Connection(address(server.port, "mandatory", certificate), query_seconds=1)
    with server.inject(fault):
        assert "no answer within 1 s" in given_up(connection, "many")
        assert served(connection, "many") == 20_000
    connection.close()


def served(connection: Connection, statement: str) -> int:
    """The rows of its answer; a loaded machine may take longer over it than this connection waits."""
    for _ in range(30):
        with contextlib.suppress(ConnectionLost):
            return len(connection.result_sets(statement)[0])
    raise AssertionError("it is never served again")


def test_an_address_that_takes_no_connection_is_given_up() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with contextlib.ExitStack() as waiting:
            for _ in range(3):
                one = waiting.enter_context(socket.socket())
                one.setblocking(False)
                one.connect_ex(full.getsockname())
            assert "no answer within 1 s" in given_up(Connection(address(full.getsockname()[1], "optional")))


@pytest.mark.parametrize(
    ("encrypt", "trickles"),
    [("mandatory", True), ("disable", False), ("disable", True)],
    ids=["mandatory-trickling", "disable-silent", "disable-trickling"],
)
@pytest.mark.parametrize("more", [0, 5, 3_000])
def test_a_statement_ends(tap: Tap, certificate: str, encrypt: str, more: int, trickles: bool) -> None:
    """Before its answer, in the first packet, and in the middle of its rows."""
    connection = Connection(address(tap.port, encrypt, certificate), query_seconds=1)
    assert connection.result_sets("none") == []
    tap.trickles = trickles
    tap.limits[tap.accepted] = 4_000 + more if more else 0
    assert "no answer within 1 s" in given_up(connection, "many")


@pytest.mark.parametrize("question", ["states", "probe"])
def test_the_first_questions_of_a_pass_are_given_up_sooner_than_a_page(
    tap: Tap, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (sqlserver_probe, sqlserver_source):
        monkeypatch.setattr(module, "QUICK_SECONDS", 1.0)
    connection = Connection(address(tap.port, "disable"))
    assert connection.result_sets("none") == []
    tap.limits[tap.accepted] = 0
    source, start = SqlServerSource(connection), LogPosition.before(Lsn(bytes(10)))
    persons = ChangeTable("dbo_Persons", PERSONS, start, (), change_table="dbo_Persons_CT")
    with pytest.raises(ConnectionLost, match="no answer within 1 s"):
        source.states([PERSONS]) if question == "states" else source.probe([ProbeRequest(persons, None)])


def test_what_is_left_of_an_answer_is_not_waited_for_without_end(tap: Tap) -> None:
    """The rest of a page is cancelled with the next statement, and the server must acknowledge that first."""
    connection = Connection(address(tap.port, "disable"), query_seconds=5)
    connection.result_sets("none")
    tap.limits[tap.accepted] = 5_000
    assert connection.rows_until("many", (), lambda row: True)[1] is False
    assert "no answer within 5 s" in given_up(connection)


def test_a_stop_ends_a_login_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlserver_waiting, "GRACE", 0.0)
    stop = threading.Event()
    stop.set()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = SqlAddress(
            "127.0.0.1", silent.getsockname()[1], None, "d", "u", SecretStr("p"), None, {"connect_timeout": "120"}
        )
        assert "no answer before the stop" in given_up(Connection(there, stop=stop))


def test_logins_that_were_given_up_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(sqlserver_waiting, "_MOST_GIVEN_UP", 1000)
    with pytest.raises(ConnectionLost, match="no answer within 0 s"):
        sqlserver_waiting.login_in_time(lambda: over.wait(BOUND), 0, None, "connecting")
    monkeypatch.setattr(sqlserver_waiting, "_MOST_GIVEN_UP", 1)
    with pytest.raises(ConnectionLost, match="earlier logins still have no answer"):
        sqlserver_waiting.login_in_time(lambda: over.wait(BOUND), 0, None, "connecting")
    over.set()
    deadline = time.monotonic() + BOUND
    while time.monotonic() < deadline:
        with contextlib.suppress(ConnectionLost):
            assert sqlserver_waiting.login_in_time(lambda: "in", 5, None, "connecting") == "in"
            return
    pytest.fail("nobody is let in again")


def test_every_address_of_a_name_is_tried_at_once(server: SqlServerEmulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """As MultiSubnetFailover asks for: one that takes no connection does not hold up the next."""
    with socket.socket(socket.AF_INET) as full, contextlib.ExitStack() as waiting:
        full.bind(("127.0.0.2", server.port))
        full.listen(0)
        for _ in range(3):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        ask = socket.getaddrinfo

        def both(host: str, *more: object, **options: object) -> list[object]:
            return [found for one in ("127.0.0.2", "127.0.0.1") for found in ask(one, *more, **options)]  # type: ignore[arg-type]

        monkeypatch.setattr(socket, "getaddrinfo", both)
        options = {"multi_subnet_failover": "true"}
        there = SqlAddress(
            "listener.example", server.port, None, "demo", "sa", SecretStr("secret"), "optional", options
        )
        with contextlib.closing(Connection(there)) as connection:
            assert connection.result_sets("none") == []
