"""The emulator as a server: AMQP and the management API on local ports, in threads of its own.

Plain TCP, as Microsoft's emulator (`UseDevelopmentEmulator=true` makes the SDKs agree), and with a certificate also TLS, on ports
of its own. Each AMQP port takes WebSockets too. Everything is in memory and gone after `stop`,
unless a directory keeps it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import logging
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

from emulators.certificates import TlsSettings

from .administration.http_server import NAMESPACE, AdminServer
from .administration.https_server import SecureAdminServer
from .administration.inspection import LoopInspection
from .administration.loop_admin import LoopAdmin
from .administration.page import render
from .entities.namespace import Namespace
from .faults.injection import Fault, Faults
from .journal import Forgetful, Journal
from .links.broker import ClientBroker
from .sas import AccessPolicies
from .storage.recovery import recover
from .storage.sqlite_journal import SqliteJournal
from .throttle import MANAGEMENT, CreditMeter
from .transport.amqp_transport import AmqpTransport
from .transport.doorway import HANDSHAKE_TIMEOUT, Doorway

ROOT_POLICY: Final = "RootManageSharedAccessKey"
DEVELOPMENT_KEY: Final = "SAS_KEY_VALUE"
"""Known to everybody: the emulator listens on the loopback interface and keeps no secrets."""
DEFAULT_KEYS: Final = {ROOT_POLICY: DEVELOPMENT_KEY}
BACKLOG: Final = 1024
"""Connections waiting to be accepted: a client program may open hundreds at once."""
TICK: Final = 0.05
"""Seconds between two looks at what is due; locks and the like are checked exactly whenever they are used."""

_log = logging.getLogger(__name__)


class AmqpServer:
    """The AMQP side, on one event loop."""

    def __init__(
        self,
        policies: AccessPolicies,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        loop: asyncio.AbstractEventLoop,
        journal: Journal,
        meter: CreditMeter,
    ) -> None:
        self.loop = loop
        self.faults = Faults()
        self.meter = meter
        self.journal = journal
        self.namespace = Namespace(clock, journal)
        self.transports: set[AmqpTransport] = set()
        self._policies = policies
        self._clock = clock
        self._monotonic = monotonic
        self._ports: list[tuple[str, int, ssl.SSLContext | None]] = []
        self._ticker: asyncio.TimerHandle | None = None
        self._arriving: set[Doorway] = set()
        self._servers: list[asyncio.Server] = []
        self.failure: OSError | None = None

    def _amqp(self) -> AmqpTransport:
        broker = ClientBroker(self.namespace, self._policies, self._clock, self.faults, self.meter)
        return AmqpTransport(self.loop, self._commit, broker, self.transports, self.faults, self._monotonic)

    @property
    def clients(self) -> Collection[AmqpTransport]:
        """Those connected now."""
        return self.transports

    async def listen(self, host: str, port: int, context: ssl.SSLContext | None = None) -> int:
        """On one more port, behind TLS when there is a context for it; returns the port in use. Raises OSError."""
        server = await self.loop.create_server(
            lambda: Doorway(self.loop, self._amqp, self._arriving),
            host,
            port,
            backlog=BACKLOG,
            ssl=context,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT if context else None,
        )
        self._servers.append(server)
        if self._ticker is None:
            self._ticker = self.loop.call_later(TICK, self._tick)
        bound = int(server.sockets[0].getsockname()[1])
        if (host, bound, context) not in self._ports:
            self._ports.append((host, bound, context))
        return bound

    async def close_ports(self) -> None:
        """Hang up on everybody and stop listening; everything else stays."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        self.drop()

    async def open_ports(self) -> None:
        """Listen again, on the same ports. Raises OSError when one was taken meanwhile."""
        for port in list(self._ports):
            await self.listen(*port)

    def _tick(self) -> None:
        self._ticker = self.loop.call_later(TICK, self._tick)
        self.namespace.sweep()
        if not self._commit():
            return
        for transport in list(self.transports):
            transport.tick()

    def _commit(self) -> bool:
        """Make safe what was noted. When that fails everybody is hung up on before anything is answered, and the loop stops."""
        try:
            self.journal.commit()
        except OSError as error:
            if self.failure is None:
                self.failure = error
                _log.critical("the Service Bus emulator stops: %s", error)
                self.drop()
                self.loop.stop()
            return False
        return True

    async def close(self) -> None:
        """Stop listening and hang up on everybody, those in the middle of a TLS handshake included."""
        if self._ticker is not None:
            self._ticker.cancel()
        for server in self._servers:
            server.close()
        accepting = asyncio.all_tasks(self.loop) - {asyncio.current_task()}
        for task in accepting:
            task.cancel()
        await asyncio.gather(*accepting, return_exceptions=True)
        self.drop()
        while self.transports or self._arriving:
            await asyncio.sleep(0)
        for server in self._servers:
            await server.wait_closed()

    def drop(self) -> None:
        """Hang up on everybody."""
        for transport in list(self.transports):
            transport.abort()
        for newcomer in list(self._arriving):
            newcomer.abort()


class ServiceBusEmulator:
    """An emulated namespace. Start and stop it, or use it in a `with` statement; it does not start twice.

    With `tls` there are two more ports: AMQP over TLS and the management API over HTTPS.

    `keys`: policy name to key. `rights`: policy name to some of Listen, Send, Manage; a policy not named may do everything.
    `clock`: seconds since the Unix epoch; locks, times to live, schedules, detection windows and tokens go by it.
    `monotonic`: seconds by which links and connections are idle.
    `credits_per_second`: what the namespace may spend (a Standard one 1,000; see throttle.py); None: as much as it likes.
    `data`: directory that keeps the namespace, in use from here to `stop`; None: everything is in memory. Raises OSError when
    it cannot be used. When it cannot be written any more the emulator hangs up on everybody, serves no AMQP any more and calls
    `on_failure`, which must not wait for `stop`.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        http_port: int = 0,
        tls: TlsSettings | None = None,
        tls_port: int = 0,
        https_port: int = 0,
        keys: Mapping[str, str] = DEFAULT_KEYS,
        rights: Mapping[str, Collection[str]] | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        credits_per_second: int | None = None,
        data: Path | None = None,
        on_failure: Callable[[OSError], None] = lambda error: None,
    ) -> None:
        self._meter = CreditMeter(credits_per_second, clock)
        self._host = host
        self._keys = dict(keys)
        self._policies = AccessPolicies(keys, rights)
        self._kept = None if data is None else SqliteJournal(data)
        journal: Journal = self._kept or Forgetful()
        self._on_failure = on_failure
        self._loop = asyncio.new_event_loop()
        self._amqp = AmqpServer(self._policies, clock, monotonic, self._loop, journal, self._meter)
        self._wanted: list[tuple[int, ssl.SSLContext | None]] = [(port, None)]
        self._thread = threading.Thread(target=self._run, name="servicebus-amqp", daemon=True)
        self._bound: concurrent.futures.Future[list[int]] = concurrent.futures.Future()
        manage = [name for name in keys if "Manage" in self._policies.rights(name)]
        self.admin = LoopAdmin(self._amqp.namespace, journal, self._loop)
        inspection = LoopInspection(
            self._amqp.namespace, self._loop, lambda: len(self._amqp.transports), lambda: self._meter.spent
        )
        page = functools.partial(render, inspection, NAMESPACE)
        over_http = LoopAdmin(self._amqp.namespace, journal, self._loop, lambda: self._meter.charge(MANAGEMENT))
        self._http = AdminServer(over_http, keys=keys, manage=manage, host=host, port=http_port, page=page)
        self._https: SecureAdminServer | None = None
        if tls is not None:
            self._wanted.append((tls_port, tls.context))
            self._https = SecureAdminServer(
                over_http, keys=keys, manage=manage, host=host, port=https_port, page=page, context=tls.context
            )
        self._stopping = threading.Lock()

    def start(self) -> None:
        """Put back what is kept and listen on every port. Raises OSError when that cannot be read or a port is taken; then none is."""
        try:
            if self._kept is not None:
                recover(self._kept, self._amqp.namespace)
            self._thread.start()
            self._bound.result()
            self._http.start()
            if self._https is not None:
                self._https.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Hang up on everybody, free the ports, forget what no directory keeps; safe to call twice."""
        with self._stopping:
            self._http.stop()
            if self._https is not None:
                self._https.stop()
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
            if not self._loop.is_closed():
                self._loop.close()
        if self._kept is not None:
            self._kept.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            ports = self._loop.run_until_complete(self._listen())
            self._loop.call_soon(self._bound.set_result, ports)  # told from inside: by then the loop serves
            self._loop.run_forever()
        except BaseException as error:  # whoever waits for the ports is told, whatever it is
            self._bound.set_exception(error)
        finally:
            self._loop.run_until_complete(self._amqp.close())
        if self._amqp.failure is not None:
            self._on_failure(self._amqp.failure)

    async def _listen(self) -> list[int]:
        return [await self._amqp.listen(self._host, port, context) for port, context in self._wanted]

    @property
    def port(self) -> int:
        """The AMQP port in use."""
        return self._bound.result(timeout=0)[0]

    @property
    def tls_port(self) -> int:
        """The port for AMQP over TLS in use. Raises RuntimeError when there is none."""
        ports = self._bound.result(timeout=0)
        if len(ports) == 1:
            raise RuntimeError("the emulator has no certificate")
        return ports[1]

    @property
    def http_port(self) -> int:
        """The management API's port in use."""
        return self._http.port

    @property
    def https_port(self) -> int:
        """The management API's port behind TLS in use. Raises RuntimeError when there is none."""
        if self._https is None:
            raise RuntimeError("the emulator has no certificate")
        return self._https.port

    @property
    def connection_string(self) -> str:
        """For the root policy, or the first one when there is none of that name."""
        return self.connection_string_for(self._first_policy)

    def connection_string_for(self, policy: str) -> str:
        """For a policy. Raises KeyError."""
        return f"{self._address(self.port, policy)}UseDevelopmentEmulator=true;"

    @property
    def secure_connection_string(self) -> str:
        """The same over TLS. Its port is `https_port`, for administration; AMQP clients are told `tls_port` by an option of theirs."""
        return self.secure_connection_string_for(self._first_policy)

    def secure_connection_string_for(self, policy: str) -> str:
        """For a policy. Raises KeyError; RuntimeError when there is no certificate."""
        return self._address(self.https_port, policy)

    @property
    def _first_policy(self) -> str:
        return ROOT_POLICY if ROOT_POLICY in self._keys else next(iter(self._keys))

    def _address(self, port: int, policy: str) -> str:
        return f"Endpoint=sb://{self._host}:{port};SharedAccessKeyName={policy};SharedAccessKey={self._keys[policy]};"

    def drop_connections(self) -> None:
        """Hang up on every client at once, as a network would."""
        self._loop.call_soon_threadsafe(self._amqp.drop)

    @property
    def credits(self) -> dict[str, int]:
        """Credits spent by clients since the start, by kind (see throttle.py)."""
        return self._meter.spent

    @contextmanager
    def inject(self, fault: Fault) -> Iterator[None]:
        """Let this fault (see faults/catalogue.py) act as long as the block lasts; several may. A fault is used once."""

        async def begin() -> None:
            self._amqp.faults.begin(fault, self._amqp)

        asyncio.run_coroutine_threadsafe(begin(), self._loop).result()
        try:
            yield
        finally:
            if self._loop.is_running():
                asyncio.run_coroutine_threadsafe(self._amqp.faults.end(fault), self._loop).result()

    def __enter__(self) -> ServiceBusEmulator:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
