"""Which account of this machine is at the other end of a connection, as Linux's tables of TCP connections say.

A loopback address is reached by every account of a machine, and by every container of a pod: only this console's own account and root are let
in without a token. A connection whose account is not found is refused, and where the tables cannot be read at all, `works` is false.
"""

from __future__ import annotations

import os
import pwd
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from desk.console.refusals import NotAllowed

NET: Final = Path("/proc/net")
_ROOT: Final = 0
_TRIES: Final = 3
"""A table that changes while it is read may lack a line."""
_ELSE: Final = "give --token-file FILE: then whoever has the token comes in"

End = tuple[str, int]


@dataclass
class Peers:
    """`own`: the account of this process. Callable from any thread."""

    own: int
    net: Path = NET
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _read_at: float = float("-inf")
    _read: tuple[str, ...] = ()

    @cached_property
    def works(self) -> bool:
        """Whether a connection of this process to itself is found to be its own."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(1)
            port = listener.getsockname()[1]
            with socket.create_connection(("127.0.0.1", port), 5) as own:
                return self._found(own.getsockname()[:2], port) == {os.geteuid()}

    def account(self, peer: End, port: int | None) -> int | None:
        """Who has connected from `peer` to `port` of this console; None where this machine cannot say. Raises NotAllowed for anybody else."""
        if not self.works:
            return None
        found = set[int]()
        for _ in range(_TRIES):
            if found := self._found(peer, port):
                break
        others = found - {self.own, _ROOT}
        if others:
            raise NotAllowed(
                f"the connection is {name_of(min(others))}'s, another account of this machine than the console's",
                hint=_ELSE,
            )
        if not found:
            raise NotAllowed(
                "nobody knows whose account of this machine the connection is", hint=f"try again, or {_ELSE}"
            )
        return self.own if self.own in found else _ROOT

    def _found(self, peer: End, port: int | None) -> set[int]:
        """The accounts of the sockets that have this end. `port` None: wherever they lead."""
        try:
            return {
                each.account
                for text in self._since(time.monotonic())
                for each in ends_of(text, peer[1])
                if _same(each.own[0], peer[0]) and port in (None, each.other[1])
            }
        except OSError:
            return set()

    def _since(self, asked: float) -> tuple[str, ...]:
        """The tables as they were at `asked` or later. One reading, of milliseconds, serves all who wait for it."""
        with self._lock:
            if self._read_at <= asked:
                began = time.monotonic()
                self._read = tuple(self._texts())
                self._read_at = began
            return self._read

    def _texts(self) -> Iterator[str]:
        yield (self.net / "tcp").read_text("ascii")
        if (self.net / "tcp6").exists():  # a socket of IPv6 may have an address of IPv4
            yield (self.net / "tcp6").read_text("ascii")


@dataclass(frozen=True, slots=True)
class Ends:
    """A line of a table: a socket that a process still has."""

    own: End
    other: End
    account: int


def ends_of(text: str, port: int) -> Iterator[Ends]:
    """Of the sockets at `port`. One that its process has closed (its inode is 0) is passed over: Linux calls it root's."""
    wanted = f":{port:04X}"
    for line in text.splitlines()[1:]:
        parts = line.split()
        if len(parts) > 9 and parts[1].endswith(wanted) and parts[9] != "0":
            yield Ends(_end(parts[1]), _end(parts[2]), int(parts[7]))


def _end(text: str) -> End:
    """`0100007F:1F9A`: words of 32 bits in the order of this machine, and a port."""
    address, _, port = text.partition(":")
    raw = bytes.fromhex(address)
    words = (raw[at : at + 4] for at in range(0, len(raw), 4))
    whole = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return str(ip_address(whole)), int(port, 16)


def _same(one: str, other: str) -> bool:
    return _plain(one) == _plain(other)


def _plain(text: str) -> object:
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def name_of(account: int) -> str:
    try:
        return pwd.getpwuid(account).pw_name
    except KeyError:
        return f"uid {account}"


def own_account() -> Peers:
    return Peers(os.geteuid())
