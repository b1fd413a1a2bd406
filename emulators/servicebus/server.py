"""The emulator as a server: AMQP and the management API on local ports, in threads of its own.

Plain TCP, as Microsoft's emulator (`UseDevelopmentEmulator=true` makes the SDKs agree), and with a certificate also TLS, on ports
of its own. Each AMQP port takes WebSockets too. Everything is in memory and gone after `stop`,
unless a directory keeps it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from emulators.certificates import TlsSettings

from .administration.api import Query
from .administration.http_server import NAMESPACE, AdminServer
from .administration.https_server import SecureAdminServer
from .administration.inspection import LoopInspection
from .administration.loop_admin import LoopAdmin
from .administration.page import render
from .amqp_server import AmqpServer
from .entities.namespace import Namespace
from .faults.injection import Fault, Faults
from .journal import Forgetful, Journal
from .links.broker import ClientBroker
from .loop_calls import LoopCalls, NotRunning
from .sas import AccessPolicies
from .storage.recovery import recover
from .storage.sqlite_journal import SqliteJournal
from .throttle import MANAGEMENT, CreditMeter

ROOT_POLICY: Final = "RootManageSharedAccessKey"
DEVELOPMENT_KEY: Final = "SAS_KEY_VALUE"
"""Known to everybody: the emulator listens on the loopback interface and keeps no secrets."""
DEFAULT_KEYS: Final = {ROOT_POLICY: DEVELOPMENT_KEY}


class _Served:
    """The namespace, as its clients reach it."""

    def __init__(
        self,
        namespace: Namespace,
        policies: AccessPolicies,
        clock: Callable[[], float],
        journal: Journal,
        meter: CreditMeter,
    ) -> None:
        self._namespace = namespace
        self._policies = policies
        self._clock = clock
        self._meter = meter
        self.sweep = namespace.sweep
        self.commit = journal.commit

    def broker(self, faults: Faults) -> ClientBroker:
        return ClientBroker(self._namespace, self._policies, self._clock, faults, self._meter)


class ServiceBusEmulator:
    """An emulated namespace. Start and stop it, or use it in a `with` statement; it does not start twice.

    With `tls` there are two more ports: AMQP over TLS and the management API over HTTPS.

    `keys`: policy name to key. `rights`: policy name to some of Listen, Send, Manage; a policy not named may do everything.
    `clock`: seconds since the Unix epoch; locks, times to live, schedules, detection windows and tokens go by it, and so do
    the dates of the management API's answers.
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
        self._calls = LoopCalls(self._loop)
        self._namespace = Namespace(clock, journal)
        served = _Served(self._namespace, self._policies, clock, journal, self._meter)
        self._amqp = AmqpServer("Service Bus", served, monotonic, self._loop)
        self._wanted: list[tuple[int, ssl.SSLContext | None]] = [(port, None)]
        self._thread = threading.Thread(target=self._run, name="servicebus-amqp", daemon=True)
        self._bound: concurrent.futures.Future[list[int]] = concurrent.futures.Future()
        manage = [name for name in keys if "Manage" in self._policies.rights(name)]
        self.admin = LoopAdmin(self._namespace, journal, self._calls)
        over_http = LoopAdmin(self._namespace, journal, self._calls, lambda: self._meter.charge(MANAGEMENT))
        shared: dict[str, Any] = {"keys": keys, "manage": manage, "host": host, "said": self._said, "clock": clock}
        shared["page"] = self._page()
        self._http = AdminServer(over_http, port=http_port, **shared)
        self._https: SecureAdminServer | None = None
        if tls is not None:
            self._wanted.append((tls_port, tls.context))
            self._https = SecureAdminServer(over_http, port=https_port, context=tls.context, **shared)
        self._stopping = threading.Lock()

    def _page(self) -> Callable[[Query], str]:
        """What people see at the management port."""
        inspection = LoopInspection(
            self._namespace, self._calls, lambda: len(self._amqp.transports), lambda: self._meter.spent
        )
        return functools.partial(render, inspection, NAMESPACE)

    def start(self) -> None:
        """Put back what is kept and listen on every port. Raises OSError when that cannot be read or a port is taken; then none is."""
        try:
            if self._kept is not None:
                recover(self._kept, self._namespace)
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
                self._loop.call_soon_threadsafe(self._amqp.halt)
                self._thread.join()
            if not self._loop.is_closed():
                self._loop.close()
            if self._kept is not None:
                self._kept.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            ports = self._loop.run_until_complete(self._listen())
            self._calls.begin()
            self._loop.call_soon(self._bound.set_result, ports)  # told from inside: by then the loop serves
            self._loop.run_forever()
        except BaseException as error:  # raised in the thread that waits for the ports, whatever it is
            self._bound.set_exception(error)
        finally:
            self._loop.run_until_complete(self._amqp.close())
            self._calls.end()
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

    def _said(self) -> float | None:
        """How much of the management API's next answer is said; None for all of it."""
        return self._calls.call(self._amqp.faults.managing)

    def drop_connections(self) -> None:
        """Hang up on every client at once, as a network would."""
        self._loop.call_soon_threadsafe(self._amqp.drop)

    @property
    def credits(self) -> dict[str, int]:
        """Credits spent by clients since the start, by kind (see throttle.py)."""
        return self._meter.spent

    @property
    def refusals(self) -> int:
        """Sends and requests refused since the start for want of credits; a batch is one."""
        return self._meter.refused

    @contextmanager
    def inject(self, fault: Fault) -> Iterator[None]:
        """Let this fault (see faults/catalogue.py) act as long as the block lasts; several may. A fault is used once."""
        self._calls.call(lambda: self._amqp.faults.begin(fault, self._amqp))
        try:
            yield
        finally:
            with suppress(NotRunning):
                self._calls.wait(lambda: self._amqp.faults.end(fault))

    def __enter__(self) -> ServiceBusEmulator:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
