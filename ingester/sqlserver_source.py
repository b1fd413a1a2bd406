"""The change tables of SQL Server through pymssql: one connection, one question a round trip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from common.errors import PermanentError
from common.names import TableName
from ingester import queries
from ingester.change import Change
from ingester.lsn import Lsn, Position
from ingester.rows import RowReader
from ingester.source import (
    CapturedColumn,
    CaptureInstance,
    Page,
    Probe,
    ProbeAnswer,
    ProbeRequest,
    TableState,
)
from ingester.sqlserver_connection import Connection, is_error
from ingester.window import Image, pair

_UNKNOWN_FUNCTION = 195


class SqlServerSource:
    """`before_images` and `decimals_as_numbers`: the settings of that name. Case of configured names follows the database."""

    def __init__(
        self, connection: Connection, *, before_images: bool = False, decimals_as_numbers: bool = False
    ) -> None:
        self._connection = connection
        self._before_images = before_images
        self._decimals_as_numbers = decimals_as_numbers
        self._zone: str | None = None
        self._zone_known = False
        self._readers: dict[CaptureInstance, RowReader] = {}

    def states(self, tables: Sequence[TableName]) -> Mapping[TableName, TableState]:
        if not tables:
            return {}
        sql, parameters = queries.table_states(tables)
        existing = {(schema.lower(), name.lower()) for schema, name in self._connection.rows(sql, parameters)}
        instances = self._instances()
        return {
            table: TableState(
                exists=_folded(table) in existing,
                instances=tuple(i for i in instances if _folded(i.table) == _folded(table)),
            )
            for table in tables
        }

    def _instances(self) -> list[CaptureInstance]:
        enabled = self._connection.rows(queries.CDC_ENABLED)
        if not enabled or not enabled[0][0]:
            return []
        columns: dict[int, list[CapturedColumn]] = {}
        for object_id, name, sql_type, ordinal, computed, length, key in self._connection.rows(
            queries.CAPTURED_COLUMNS
        ):
            columns.setdefault(object_id, []).append(
                CapturedColumn(name, sql_type.lower(), ordinal, bool(computed), length == -1, key)
            )
        return [
            CaptureInstance(
                name=capture_instance,
                table=TableName(schema, source),
                change_table=change_table,
                start_lsn=Lsn(bytes(start_lsn)),
                columns=tuple(columns.get(object_id, ())),
                has_command_id=command_id_length is not None,
            )
            for schema, source, capture_instance, change_table, object_id, start_lsn, command_id_length in self._connection.rows(
                queries.CAPTURE_INSTANCES
            )
            if start_lsn is not None and schema is not None
        ]

    def probe(self, requests: Sequence[ProbeRequest]) -> Probe:
        if not requests:
            found = self._connection.rows(queries.MAX_LSN)[0][0]
            return Probe(None if found is None else Lsn(bytes(found)), {})
        changes, parameters = [], []
        for request in requests:
            instance = request.instance
            after = request.after or Position.before(instance.start_lsn)
            changes.append((instance.change_table, queries.after(instance.has_command_id, after.command_id)))
            parameters += [instance.name, instance.name, *_ladder(after, instance.has_command_id)]
        rows = self._connection.result_sets(queries.probe(changes), parameters)[-1]
        max_lsn = next((Lsn(bytes(row[1])) for row in rows if row[1] is not None), None)
        answers = {
            name: ProbeAnswer(None if low is None else Lsn(bytes(low)), bool(pending)) for name, _, low, pending in rows
        }
        return Probe(max_lsn, answers)

    def page(self, instance: CaptureInstance, *, after: Position, upto: Position, rows: int) -> Page:
        reader = self._reader(instance)
        sql = queries.page(
            instance.change_table,
            reader.selected,
            rows=rows,
            has_command_id=instance.has_command_id,
            after_command_id=after.command_id,
            before_images=self._before_images,
            inclusive=upto == Position.end_of(upto.lsn),
            zone=self._time_zone(),
        )
        parameters = (*_ladder(after, instance.has_command_id), upto.lsn.value, instance.name)
        found, watermark = self._connection.result_sets(sql, parameters)
        full = len(found) == rows
        images = [_image(row) for row in found]
        paired = pair(images, full=full)
        changes: list[Change] = [reader.change(p) for p in paired]
        low = watermark[0][0]
        end = paired[-1].row.position if paired else None
        return Page(changes, end, full, None if low is None else Lsn(bytes(low)))

    def close(self) -> None:
        self._connection.close()

    def _reader(self, instance: CaptureInstance) -> RowReader:
        if instance not in self._readers:
            self._readers[instance] = RowReader(
                instance, decimals_as_numbers=self._decimals_as_numbers, before_images=self._before_images
            )
        return self._readers[instance]

    def _time_zone(self) -> str | None:
        if not self._zone_known:
            try:
                self._zone = self._connection.rows(queries.SERVER_TIME_ZONE)[0][0]
            except Exception as error:
                if not is_error(error, _UNKNOWN_FUNCTION):
                    raise
            self._zone_known = True
        return self._zone


def _folded(table: TableName) -> tuple[str, str]:
    return table.schema.lower(), table.table.lower()


def _ladder(after: Position, has_command_id: bool) -> list[object]:
    """The parameters of `queries.after`, outermost comparison first."""
    lsn, seqval, operation = after.lsn.value, after.seqval, after.operation
    command = [after.command_id, after.command_id] if has_command_id else []
    return [lsn, lsn, *command, seqval, seqval, operation]


def _image(row: Sequence[Any]) -> Image:
    start_lsn, command_id, seqval, operation, mask, commit_time, *values = row
    if start_lsn is None:
        raise PermanentError(
            "reading a change table: rows come without their LSN",
            hint="the login lacks the capture instance's gating role: add it to the role, or re-create the instance without one",
        )
    position = Position(Lsn(bytes(start_lsn)), command_id, bytes(seqval), operation)
    number = int.from_bytes(mask, "big") if mask is not None else 0
    return Image(position, number, None if commit_time is None else commit_time.replace(" ", "T") + "Z", values)
