"""Every built-in function that depends on its arguments alone, in one table: importing this registers all of them."""

from __future__ import annotations

from emulators.sqlserver.tsql.functions import (
    checksum,
    date_functions,
    number_functions,
    text_functions,
)
from emulators.sqlserver.tsql.functions.functions import BUILTINS, REFUSED, refused

__all__ = [
    "BUILTINS",
    "REFUSED",
    "checksum",
    "date_functions",
    "number_functions",
    "refused",
    "text_functions",
]
