"""The type of a column as a declaration has it, from what the catalog says of it. Pure."""

from __future__ import annotations

_MAX = -1
_BYTES_OF_A_ROWVERSION = 8


def declared(name: str, length: int | None, precision: int | None, scale: int | None) -> str:
    """`length`: in bytes, -1 for max; the others as sys.columns has them; None where the catalog does not say: then the name alone.

    A rowversion is captured as the binary(8) that it is, so it is called that in its table too.
    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql
    """
    match name:
        case "char" | "varchar" | "binary" | "varbinary" if length is not None:
            return f"{name}({'max' if length == _MAX else length})"
        case "nchar" | "nvarchar" if length is not None:
            return f"{name}({'max' if length == _MAX else length // 2})"
        case "decimal" | "numeric" if precision is not None:
            return f"{name}({precision},{scale or 0})"
        case "time" | "datetime2" | "datetimeoffset" if scale is not None:
            return f"{name}({scale})"
        case "timestamp" | "rowversion":
            return f"binary({_BYTES_OF_A_ROWVERSION})"
    return name
