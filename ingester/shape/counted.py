"""What contradicts `transactions = true`: settings by which the counts of a transaction would not be those of the changes that arrive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from common.config.settings import Location
from common.names import TRANSACTIONS, TableName

LEAVES_OUT = ("filter", "skip_operations", "skip_unchanged")
"""Settings of a shape by which some changes are not sent."""


def uncountable(data: Mapping[str, Any], names: Iterable[TableName]) -> Iterator[tuple[Location, str]]:
    """`data`: the `ingester` block as plain data, parts of which may be wrong. `names`: its exact tables."""
    if data.get("transactions") is not True:
        return
    if data.get("query_mode") == "function":
        yield ("query_mode",), 'is "function", which cannot count: transactions = true needs query_mode = "direct"'
    if any(name.key.lower() == TRANSACTIONS.key for name in names):
        yield ("tables",), f"names {TRANSACTIONS}, which is the name of the events of transactions = true"
    yield from _left_out(("shape",), data.get("shape"))
    overrides = data.get("tables_overrides")
    found = overrides.get("overrides") if isinstance(overrides, Mapping) else None
    for number, override in enumerate(found if isinstance(found, tuple) else ()):
        yield from _left_out(("tables_overrides", "overrides", number), override)


def _left_out(at: Location, block: Any) -> Iterator[tuple[Location, str]]:
    if isinstance(block, Mapping):
        for setting in LEAVES_OUT:
            if block.get(setting):
                yield (
                    (*at, setting),
                    (
                        "leaves changes out, and a consumer would wait for them: transactions = true counts every change; remove one of the two"
                    ),
                )
