"""Definitions (tables, views, logins ...) as text and back, for a data directory. Knows the classes by name, and no other.

A changed field is another format: see data_directory.FORMAT.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from emulators.sqlserver.engine.extension import IndexFilter, KeyIndex, Table, TableColumn
from emulators.sqlserver.engine.security import Login, Permission, Principal
from emulators.sqlserver.engine.store.catalog import Check, Computed, Default, ForeignKey, TableEntry, View
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.values.text_order import Fold

CLASSES: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        *(SqlType, Fragment, TableColumn, IndexFilter, KeyIndex, Table, Default, Computed, Check, ForeignKey, View),
        *(TableEntry, Login, Principal, Permission),
    )
}
_FOLD = "fold"
"""The one field that is a function: it follows from the database's collation."""


def written(value: object) -> str:
    """JSON of a value made of these classes, plain values, bytes, tuples, lists, sets and mappings."""
    return json.dumps(_packed(value), separators=(",", ":"))


def read(text: str, fold: Fold = str.lower) -> Any:
    """The value again; `fold`: what its tables compare names by."""
    return _unpacked(json.loads(text), fold)


def _packed(value: object) -> object:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return {"bytes": value.hex()}
        case tuple():
            return {"tuple": [_packed(item) for item in value]}
        case list():
            return [_packed(item) for item in value]
        case frozenset():
            return {"frozenset": [_packed(item) for item in sorted(value)]}
        case set():
            return {"set": [_packed(item) for item in sorted(value)]}
        case Mapping():
            return {"map": [[_packed(key), _packed(item)] for key, item in value.items()]}
    if not is_dataclass(value) or type(value) is not CLASSES.get(type(value).__name__):
        raise TypeError(f"a {type(value).__name__} is not for a data directory")
    kept = {item.name: _packed(getattr(value, item.name)) for item in fields(value) if item.name != _FOLD}
    return {"of": type(value).__name__, "has": kept}


def _unpacked(data: Any, fold: Fold) -> Any:
    if isinstance(data, list):
        return [_unpacked(item, fold) for item in data]
    if not isinstance(data, dict):
        return data
    if "of" in data:
        kind = CLASSES[data["of"]]
        given = {name: _unpacked(item, fold) for name, item in data["has"].items()}
        return kind(**given, **({_FOLD: fold} if kind is TableEntry else {}))
    [(kept, inside)] = data.items()
    if kept == "bytes":
        return bytes.fromhex(inside)
    if kept == "map":
        return {_unpacked(key, fold): _unpacked(item, fold) for key, item in inside}
    return {"tuple": tuple, "set": set, "frozenset": frozenset}[kept](_unpacked(item, fold) for item in inside)
