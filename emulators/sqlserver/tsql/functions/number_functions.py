"""ABS, CEILING, FLOOR and ROUND, which keep the type of a number, and ISNUMERIC.

Source: https://learn.microsoft.com/sql/t-sql/functions/mathematical-functions-transact-sql
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal

from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.errors import arithmetic_overflow
from emulators.sqlserver.tsql.functions.functions import BUILTINS, Builtin, Made, builtin
from emulators.sqlserver.tsql.values.conversions.numbers import EXACT, exact_text
from emulators.sqlserver.tsql.values.convert import converter
from emulators.sqlserver.tsql.values.types import FLOAT, INT, RANGES, family


def _numeric(kind: SqlType) -> SqlType:
    return FLOAT if family(kind) == "string" or kind.name == "real" else kind


@builtin("ABS", 1)
def _abs(types: Sequence[SqlType]) -> Made:
    target = _numeric(types[0])
    read = converter(types[0], target)

    def run(value: Value) -> Value:
        number = read(value)
        if isinstance(number, str):
            return number.removeprefix("-")
        assert isinstance(number, int | float)
        if target.name in RANGES and abs(number) > RANGES[target.name][1]:
            raise arithmetic_overflow(target.name)
        return abs(number)

    return target, run


def _rounder(name: str, mode: str) -> None:
    def make(types: Sequence[SqlType]) -> Made:
        kind = _numeric(types[0])
        target = SqlType(kind.name, None, kind.precision, 0) if kind.precision is not None else kind
        read = converter(types[0], kind)

        def run(value: Value) -> Value:
            number = read(value)
            if isinstance(number, int):
                return number
            whole = Decimal(str(number)).to_integral_value(mode)
            return float(whole) if isinstance(number, float) else exact_text(whole, target)

        return target, run

    BUILTINS[name] = Builtin(1, 1, make)


_rounder("FLOOR", ROUND_FLOOR)
_rounder("CEILING", ROUND_CEILING)


@builtin("ROUND", 2, 3)
def _round(types: Sequence[SqlType]) -> Made:
    kind = _numeric(types[0])
    kind = INT if kind.name in ("tinyint", "smallint", "bit") else kind
    read = converter(types[0], kind)

    def run(value: Value, digits: Value, cut: Value = 0) -> Value:
        number = read(value)
        exact = Decimal(repr(number) if isinstance(number, float) else str(number))
        mode = ROUND_DOWN if int(str(cut)) else ROUND_HALF_UP
        rounded = exact.quantize(Decimal(1).scaleb(-int(str(digits))), mode, EXACT)
        if isinstance(number, int):
            return int(rounded)
        return float(rounded) if isinstance(number, float) else exact_text(rounded, kind)

    return kind, run


_CURRENCY = "$£¤¥฿₡₢₣₤₥₦₧₨₩₪₫€"
_NUMERIC = re.compile(rf"\s*[+-]?\s*[{_CURRENCY}]?\s*[+-]?\s*(?:[\d,]*\d[\d,]*\.?\d*|\.\d+)(?:[eEdD][+-]?\d+)?\s*")


@builtin("ISNUMERIC", 1, nulls=True)
def _isnumeric(types: Sequence[SqlType]) -> Made:
    """A number, or text that int, decimal, money or float takes; a lone sign or currency symbol counts as well.

    https://learn.microsoft.com/sql/t-sql/functions/isnumeric-transact-sql
    """
    if family(types[0]) != "string":
        numeric = int(family(types[0]) in ("int", "exact", "float"))
        return INT, lambda value: 0 if value is None else numeric

    def run(value: Value) -> Value:
        text = "" if value is None else str(value).strip()
        return int(bool(_NUMERIC.fullmatch(text)) or (len(text) == 1 and text in "+-.," + _CURRENCY))

    return INT, run
