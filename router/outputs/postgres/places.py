"""The tables that streams go to. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from common.names import TRANSACTIONS
from router.outputs.port import Stream


def tables_of(streams: Sequence[Stream]) -> list[str]:
    """Each once. Events about transactions are about no row, so their stream has no table."""
    return list(dict.fromkeys(stream.destination for stream in streams if stream.table != TRANSACTIONS))
