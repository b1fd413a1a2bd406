"""Arguments of CDC's procedures and functions in the types that their parameters have. Pure."""

from __future__ import annotations

from emulators.sqlserver.cdc import lsn
from emulators.sqlserver.results import SqlError, Value


def binary_lsn(value: Value) -> bytes | None:
    """An argument of type binary(10): shorter ones are padded on the right, numbers on the left. Raises 257 for text."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value[: lsn.SIZE].ljust(lsn.SIZE, b"\0")
    if isinstance(value, int):
        return (value & 0xFFFF_FFFF).to_bytes(lsn.SIZE, "big")
    kind = "float" if isinstance(value, float) else "varchar"
    raise SqlError(
        257,
        f"Implicit conversion from data type {kind} to binary is not allowed. Use the CONVERT function to run this query.",
    )
