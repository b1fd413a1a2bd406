"""Statements with their parameters as literals: the driver would do the same, but for two traps of its."""

from __future__ import annotations

from collections.abc import Sequence

from ingester.queries import P


def rendered(sql: str, parameters: Sequence[object]) -> str:
    """`sql` with its parameters as literals. The driver finds its placeholders inside quoted names as well, and sends bytes that happen
    to be ASCII as a varchar. Raises ValueError and TypeError for parameters that do not fit."""
    parts = sql.split(P)
    if len(parts) != len(parameters) + 1:
        raise ValueError(f"{len(parts) - 1} parameters are wanted and {len(parameters)} were given")
    return parts[0] + "".join(_literal(value) + part for value, part in zip(parameters, parts[1:], strict=True))


def _literal(value: object) -> str:
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
