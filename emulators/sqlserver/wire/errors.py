"""What can go wrong below SQL: the one error of the wire layer."""

from __future__ import annotations


class ProtocolError(Exception):
    """The peer broke TDS: what follows in the stream cannot be trusted, so the connection ends."""
