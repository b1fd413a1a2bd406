"""The emulator as a server: AMQP on local ports, in a thread of its own, plain and, with a certificate, over TLS; each port takes WebSockets too.

Everything is in memory and gone after `stop`, unless a directory keeps it. Hubs are made by `create_hub`, as there is no data-plane call that
makes one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from emulators.certificates import TlsSettings
from emulators.servicebus.amqp_server import AmqpServer
from emulators.servicebus.faults.injection import Fault, Faults
from emulators.servicebus.loop_calls import LoopCalls, NotRunning
from emulators.servicebus.sas import AccessPolicies
from emulators.servicebus.throttle import CreditMeter

from .broker import LARGEST, HubBroker
from .hub import Namespace
from .journal import Forgetful, Journal, SqliteJournal

ROOT_POLICY: Final = "RootManageSharedAccessKey"
DEVELOPMENT_KEY: Final = "SAS_KEY_VALUE"
"""Known to everybody: the emulator listens on the loopback interface and keeps no secrets."""
DEFAULT_KEYS: Final = {ROOT_POLICY: DEVELOPMENT_KEY}


class _Served:
    """The namespace, as its clients reach it."""

    def __init__(
        self, namespace: Namespace, policies: AccessPolicies, clock: Callable[[], float], journal: Journal, largest: int
    ) -> None:
        self._namespace = namespace
        self._policies = policies
        self._clock = clock
        self._meter = CreditMeter(None, clock)
        self._largest = largest
        self.commit = journal.commit

    def broker(self, faults: Faults) -> HubBroker:
        return HubBroker(self._namespace, self._policies, self._clock, faults, self._meter, self._largest)

    def sweep(self) -> None:
        """Nothing is ever due."""


class EventHubsEmulator:
    """An emulated namespace. Start and stop it, or use it in a `with` statement; it does not start twice.

    `keys`: policy name to key. `rights`: policy name to some of Listen, Send, Manage; a policy not named may do everything. `clock`: seconds
    since the Unix epoch, for times of events and for tokens; `monotonic`: seconds by which links and connections are idle. `largest`: octets of
    a publication (Basic: 256 KB). `data`: directory that keeps the namespace; None: everything is in memory. When it cannot be written any more
    the emulator hangs up on everybody and calls `on_failure`, which must not wait for `stop`.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: TlsSettings | None = None,
        tls_port: int = 0,
        keys: Mapping[str, str] = DEFAULT_KEYS,
        rights: Mapping[str, Collection[str]] | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        largest: int = LARGEST,
        data: Path | None = None,
        on_failure: Callable[[OSError], None] = lambda error: None,
    ) -> None:
        self._host = host
        self._keys = dict(keys)
        self._kept = None if data is None else SqliteJournal(data)
        journal: Journal = self._kept or Forgetful()
        self._journal = journal
        self._on_failure = on_failure
        self._namespace = Namespace(clock, journal)
        self._loop = asyncio.new_event_loop()
        self._calls = LoopCalls(self._loop)
        served = _Served(self._namespace, AccessPolicies(keys, rights), clock, journal, largest)
        self._amqp = AmqpServer("Event Hubs", served, monotonic, self._loop)
        self._wanted: list[tuple[int, ssl.SSLContext | None]] = [(port, None)]
        if tls is not None:
            self._wanted.append((tls_port, tls.context))
        self._thread = threading.Thread(target=self._run, name="eventhubs-amqp", daemon=True)
        self._bound: concurrent.futures.Future[list[int]] = concurrent.futures.Future()
        self._stopping = threading.Lock()

    def start(self) -> None:
        """Put back what is kept and listen on every port. Raises OSError when that cannot be read or a port is taken; then none is."""
        try:
            self._namespace.recover()
            self._thread.start()
            self._bound.result()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Hang up on everybody, free the ports, forget what no directory keeps; safe to call twice."""
        with self._stopping:
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

    # -- hubs

    def create_hub(self, name: str, partitions: int = 4, groups: tuple[str, ...] = ()) -> None:
        """With `$Default` and these consumer groups. Raises ValueError, HubExists."""
        self._change(lambda: self._namespace.create(name, partitions, groups))

    def hub_names(self) -> list[str]:
        """As they were spelled when they were made."""
        return self._calls.call(lambda: [hub.name for hub in self._namespace.hubs.values()])

    def delete_hub(self, name: str) -> None:
        """With everything in it. Raises AmqpError."""
        self._change(lambda: self._namespace.delete(name))

    def set_status(self, name: str, status: str) -> None:
        """`Active`, `Disabled` or `SendDisabled`. Raises AmqpError, ValueError."""
        self._change(lambda: self._namespace.set_status(name, status))

    def events(self, name: str) -> int:
        """How many there are in all partitions. Raises AmqpError."""
        return self._calls.call(lambda: sum(len(each.events) for each in self._namespace.find(name).partitions))

    def _change(self, change: Callable[[], object]) -> None:
        def changed() -> None:
            change()
            self._journal.commit()

        self._calls.call(changed)

    # -- addresses

    @property
    def port(self) -> int:
        """The port in use for AMQP in clear text."""
        return self._bound.result(timeout=0)[0]

    @property
    def tls_port(self) -> int:
        """The port for AMQP over TLS in use. Raises RuntimeError when there is none."""
        ports = self._bound.result(timeout=0)
        if len(ports) == 1:
            raise RuntimeError("the emulator has no certificate")
        return ports[1]

    @property
    def connection_string(self) -> str:
        """For the root policy, or the first one when there is none of that name."""
        return self.connection_string_for(ROOT_POLICY if ROOT_POLICY in self._keys else next(iter(self._keys)))

    def connection_string_for(self, policy: str) -> str:
        """For a policy, in clear text. Raises KeyError."""
        key = self._keys[policy]
        address = f"Endpoint=sb://{self._host}:{self.port}"
        return f"{address};SharedAccessKeyName={policy};SharedAccessKey={key};UseDevelopmentEmulator=true;"

    # -- trouble

    def drop_connections(self) -> None:
        """Hang up on every client at once, as a network would."""
        self._loop.call_soon_threadsafe(self._amqp.drop)

    @contextmanager
    def inject(self, fault: Fault) -> Iterator[None]:
        """Let this fault (see emulators/servicebus/faults/catalogue.py) act as long as the block lasts; several may. A fault is used once."""
        self._calls.call(lambda: self._amqp.faults.begin(fault, self._amqp))
        try:
            yield
        finally:
            with suppress(NotRunning):
                self._calls.wait(lambda: self._amqp.faults.end(fault))

    def __enter__(self) -> EventHubsEmulator:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
