"""A value as T-SQL writes it."""

from __future__ import annotations


def literal(value: object) -> str:
    """Raises TypeError for what has none here."""
    match value:
        case None:
            return "NULL"
        case bytes():
            return f"0x{value.hex()}"
        case int():
            return str(int(value))
        case str():
            return "N'" + value.replace("'", "''") + "'"
    raise TypeError(f"no literal for {type(value).__name__}")
