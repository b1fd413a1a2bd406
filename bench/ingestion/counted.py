"""A relay between the ingester and SQL Server that counts what is asked: plain TDS only (encrypt=disable), nothing is changed.

A request is the packets of one type up to the one with the end-of-message bit (MS-TDS 2.2.3.1); type 1 is a batch of SQL text.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

_HEADER: Final = 8
_SQL_BATCH: Final = 1
_END_OF_MESSAGE: Final = 1
_PROBE: Final = "sys.fn_cdc_get_max_lsn()".encode("utf-16-le")
_TABLE: Final = " AS found'".encode("utf-16-le")


@dataclass(slots=True)
class Counts:
    """`batches` of all kinds; `probes`, those that ask what is new, over `tables` tables together; `octets` of all batches."""

    batches: int = 0
    probes: int = 0
    tables: int = 0
    octets: int = 0


class Relay:
    """Listens on a free port and passes everything on to `port`. `with` starts and stops it."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("localhost", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._counts = Counts()

    def __enter__(self) -> Relay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *details: object) -> None:
        self._listener.close()

    def taken(self) -> Counts:
        """What was counted since the last call."""
        with self._lock:
            counts, self._counts = self._counts, Counts()
            return counts

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("localhost", self._target))
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._requests, args=(client, server), daemon=True).start()
                threading.Thread(target=_pass_on, args=(server, client), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        waiting, text = b"", b""
        with suppress(OSError):
            while octets := client.recv(65536):
                server.sendall(octets)
                waiting += octets
                while len(waiting) >= _HEADER and len(waiting) >= (size := int.from_bytes(waiting[2:4], "big")):
                    kind, status, text = waiting[0], waiting[1], text + waiting[_HEADER:size]
                    waiting = waiting[size:]
                    if status & _END_OF_MESSAGE:
                        self._count(kind, text)
                        text = b""
        for end in (client, server):
            end.close()

    def _count(self, kind: int, text: bytes) -> None:
        if kind == _SQL_BATCH:
            with self._lock:
                self._counts.batches += 1
                self._counts.octets += len(text)
                if _PROBE in text:
                    self._counts.probes += 1
                    self._counts.tables += text.count(_TABLE)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while octets := source.recv(65536):
            target.sendall(octets)
    for end in (source, target):
        end.close()
