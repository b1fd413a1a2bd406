"""How often a client may ask: buckets of tokens, of a bounded number of clients. Decides with the time it is given, and never waits."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

from desk.console.access import Access, is_shared
from desk.console.guard import Identity
from desk.console.refusals import TooMany
from desk.console.tokens import UNNAMED


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_second` for ever, and `burst` at once."""

    per_second: float
    burst: int


@dataclass(slots=True)
class Limit:
    """One rate for each of `most` clients; the client that was seen longest ago is forgotten first. Callable from any thread.

    A client that is forgotten has its whole burst again: with `most` clients that takes more addresses than one person has.
    """

    what: str
    rate: Rate
    most: int = 10_000
    now: Callable[[], float] = time.monotonic
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, client: str) -> None:
        """Raises TooMany when nothing is left."""
        with self._lock:
            left = self._refilled(client)
            if left < 1:
                after = (1 - left) / self.rate.per_second
                raise TooMany(f"too many {self.what} from {client}", after=after, hint="ask less often")
            self._keep(client, left - 1)

    def _refilled(self, client: str) -> float:
        now = self.now()
        left, at = self._left.get(client, (float(self.rate.burst), now))
        return min(float(self.rate.burst), left + (now - at) * self.rate.per_second)

    def _keep(self, client: str, left: float) -> None:
        self._left[client] = (left, self.now())
        self._left.move_to_end(client)
        while len(self._left) > self.most:
            self._left.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Limits:
    """Those of one console, for all ways to it. A client is an address, or a person that a proxy names."""

    requests: Limit = field(default_factory=lambda: Limit("requests", Rate(per_second=50, burst=300)))
    changes: Limit = field(default_factory=lambda: Limit("changes", Rate(per_second=2, burst=30)))
    logins: Limit = field(default_factory=lambda: Limit("failed logins", Rate(per_second=0.1, burst=5)))


def network_of(address: str) -> str:
    """Of an IPv6 address the network of 64 bits, of this machine's addresses all: one person has them."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return f"{IPv6Address(int(found) >> 64 << 64)}/64"
    if found.is_loopback:
        return "127.0.0.0/8"
    return address


def counting(access: Access) -> Callable[[str], str | None]:
    """As what the connections of an address are counted; not at all where many people share it."""
    return lambda address: None if is_shared(access, address) else network_of(address)


def streaming_client_of(address: str, found: Identity) -> str:
    """Whose streams are counted together: a person's with a name, else a login's on the page, else an address's."""
    if found.subject.startswith("session ") or found.subject == "token":
        if found.who != UNNAMED:
            return f"{found.who}'s token"
        if found.cookie is not None:  # many may have one address
            return found.subject
    return client_of(address, found)


def client_of(address: str, found: Identity | None) -> str:
    """Behind a proxy the person, and without a token the account of this machine, as all have one address."""
    if found is not None and found.subject == "local":
        return f"account {found.who}"
    if found is not None and found.subject.startswith("proxy "):
        return found.subject
    return network_of(address)
