"""The columns that pages are read with: of which types they are, and whether they still were when a page had been read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from common.errors import TransientError
from ingester.source import CaptureInstance
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.pages.layouts import Layouts, refuse
from ingester.sqlserver.pages.returned import as_returned, stamp_of
from ingester.sqlserver.probe import UNKNOWN_OBJECT
from ingester.sqlserver.sql import columns as queries
from ingester.sqlserver.sql.changes import Statement

Answer = Sequence[Sequence[Sequence[Any]]]
"""The result sets of `Columns.question`."""


class Columns:
    """Of one server's change tables. `by_function`: as query_mode "function" reads them."""

    def __init__(self, connection: Connection, *, by_function: bool) -> None:
        self._connection = connection
        self._by_function = by_function
        self._layouts = Layouts()

    def are_certain(self, instance: ChangeTable) -> bool:
        """Whether the rows have the types that the catalog shows for them."""
        return instance.types_known and not self._by_function

    def as_returned(self, instance: ChangeTable) -> ChangeTable:
        """`instance` with the types that the server says it returns. Raises PermanentError, TransientError."""
        answer = self._connection.rows(*queries.returned(instance, by_function=self._by_function))
        if any(number == UNKNOWN_OBJECT for *_, number, _ in answer):  # CDC was disabled meanwhile
            raise gone(instance)
        return as_returned(instance, answer)

    def question(self, instance: ChangeTable) -> Statement:
        """What shows whether the columns are still those of `instance`: for the end of a page."""
        text, shape = self._layouts.question(queries.AS_READ), instance.shape
        made, source = (None, None) if shape is None else (shape.made_id, shape.source_id)
        ids = (made if instance.types_known else source, made, source)
        if instance.returned is None:
            return text, (*ids, instance.name)
        returned, of_it = queries.returned(instance, by_function=self._by_function)
        return f"{text};\n{returned}", (*ids, instance.name, *of_it)

    @staticmethod
    def sets_of(instance: ChangeTable) -> int:
        """How many result sets answer the question."""
        return 1 if instance.returned is None else 2

    def are_those_of(self, instance: ChangeTable, answer: Answer) -> bool:
        (seen,), *returned = answer
        stamp, still_there, made_id = self._layouts.answer(seen, 3)
        if (shape := instance.shape) is not None:
            left = sum(not column.gone for column in instance.columns)
            if (stamp, made_id) != (shape.stamp, shape.made_id) or still_there not in (None, left):
                return False
        return instance.returned is None or instance.returned == stamp_of(returned[0])

    def still_are_those_of(self, instance: ChangeTable) -> bool:
        """The same, asked by itself."""
        return self.are_those_of(instance, self._connection.result_sets(*self.question(instance)))

    def refuse_layouts(self, types: Collection[str]) -> None:
        """Raises PermanentError for types whose bytes this server lays out otherwise."""
        refuse(self._layouts.different, types)


def gone(instance: CaptureInstance) -> TransientError:
    return TransientError(
        f"reading {instance.table.key}: capture instance {instance.name} no longer exists; DStream looks for its table again"
    )
