"""What the Python clients share: read a scenario from standard input, run it, print the results as JSON."""

from __future__ import annotations

import datetime as dt
import json
import sys
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

ResultSets = list[list[list[object]]]


class Program(ABC):
    """One driver. `connect` gives a DB-API connection in autocommit; `placeholder` names the n-th parameter (from 1)."""

    error: type[Exception] | tuple[type[Exception], ...]
    """What the driver raises for an error of the server, and for a certificate that it does not trust."""

    def __init__(self, server: dict[str, Any]) -> None:
        self.server = server
        self.connection: Any = None

    @abstractmethod
    def connect(self, **changed: Any) -> Any: ...

    @abstractmethod
    def number(self, error: Exception) -> int | None: ...

    @abstractmethod
    def placeholder(self, position: int) -> str: ...

    @abstractmethod
    def parameters(self, types: Sequence[str], values: Sequence[object]) -> Any: ...

    @abstractmethod
    def cancel(self, step: dict[str, Any]) -> object:
        """Cancel the statement and leave `self.connection` usable."""

    def step(self, step: dict[str, Any]) -> object:
        runners: dict[str, Callable[[dict[str, Any]], object]] = {
            "connect": self._connect,
            "batch": lambda step: self._run(self.connection.cursor(), step["sql"]),
            "parameters": self._parameterised,
            "prepared": self._parameterised,  # DB-API has no other way: drivers prepare behind it, or not at all
            "transaction": self._transaction,
            "cancel": self.cancel,
        }
        try:
            return runners[step["op"]](step)
        except self.error as error:
            return {"error": self.number(error), "text": str(error)}

    def _connect(self, step: dict[str, Any]) -> object:
        self.connect(**{name: value for name, value in step.items() if name not in ("op", "name")}).close()
        return "connected"

    def _parameterised(self, step: dict[str, Any]) -> object:
        pieces = step["sql"].split("{p}")
        sql = pieces[0] + "".join(self.placeholder(n) + piece for n, piece in enumerate(pieces[1:], 1))
        cursor = self.connection.cursor()
        return [self._run(cursor, sql, self.parameters(step["types"], values)) for values in step["runs"]]

    def _transaction(self, step: dict[str, Any]) -> object:
        self.connection.autocommit = False
        cursor = self.connection.cursor()
        for statement in step["statements"]:
            cursor.execute(statement)
        if step["end"] == "commit":
            self.connection.commit()
        else:
            self.connection.rollback()
        self.connection.autocommit = True
        return "done"

    def _run(self, cursor: Any, sql: str, *parameters: object) -> ResultSets:
        cursor.execute(sql, *parameters)
        found: ResultSets = []
        while True:
            if cursor.description:
                found.append([[cell(value) for value in row] for row in cursor.fetchall()])
            if not cursor.nextset():
                return found


def cell(value: object) -> object:
    """A value as all clients render it."""
    match value:
        case None | bool() | float() | str():
            return value
        case int():
            return str(value)
        case Decimal():
            return f"{value:f}"
        case bytes():
            return "0x" + value.hex()
        case uuid.UUID():
            return str(value).upper()
        case dt.datetime():
            return f"{value:%H:%M:%S.%f}".join([f"{value.date().isoformat()}T", "0"]) + _offset(value)
        case dt.date():
            return value.isoformat()
        case dt.time():
            return f"{value:%H:%M:%S.%f}0"
    raise TypeError(f"{type(value).__name__} is not expected of a driver")


def _offset(value: dt.datetime) -> str:
    return "" if value.tzinfo is None else value.isoformat()[-6:]


def native(type_: str, value: Any) -> object:
    """The Python value of a parameter."""
    if value is None:
        return None
    makers: dict[str, Callable[[Any], object]] = {
        "int": int,
        "bigint": int,
        "decimal": Decimal,
        "varbinary": lambda text: bytes.fromhex(text[2:]),
        "date": dt.date.fromisoformat,
        "time": lambda text: dt.time.fromisoformat(text[:15]),
        "datetime2": lambda text: dt.datetime.fromisoformat(text[:26]),
        "datetimeoffset": lambda text: dt.datetime.fromisoformat(text[:26] + text[27:]),
        "uniqueidentifier": uuid.UUID,
    }
    return makers[type_](value) if type_ in makers else value


def main(program: type[Program]) -> None:
    document = json.load(sys.stdin)
    client = program(document["server"])
    client.connection = client.connect()
    results = {step["name"]: client.step(step) for step in document["steps"]}
    client.connection.close()
    json.dump(results, sys.stdout)
