"""What a server tells its connections. Holds values; does nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from emulators.sqlserver.injection import Faults
from emulators.sqlserver.tls import TlsSettings


@dataclass(frozen=True, slots=True)
class Settings:
    """What all connections of a server share; `packet_size` None means the client's wish."""

    server_name: str
    statement_log: Callable[[str], None]
    packet_size: int | None
    tls: TlsSettings | None
    faults: Faults
    federated: bool = False
    """Whether it takes tokens."""
