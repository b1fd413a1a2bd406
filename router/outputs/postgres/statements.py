"""The SQL that writes rows, with the guard by position. Pure: texts alone, with parameters as $1, $2.

Each statement is correct only under the lock of its table (`LOCK`): then nobody else removes a row between the look at what was deleted and the
write. Values come as one JSON document, and the server makes each a value of its column's type.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from router.outputs.postgres.table import Layout, Table, quoted
from router.outputs.postgres.types import expression

LOCK: Final = "SELECT pg_advisory_xact_lock($1)"

SESSION: Final = (
    "SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', LEAST($1::bigint, 5000)::text, true), "
    "set_config('idle_in_transaction_session_timeout', $1, true), set_config('TimeZone', 'UTC', true), "
    "set_config('DateStyle', 'ISO', true), set_config('IntervalStyle', 'iso_8601', true), "
    "set_config('bytea_output', 'hex', true), set_config('extra_float_digits', '1', true), "
    "set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' "
    "ELSE current_setting('synchronous_commit') END, true)"
)
"""Of one transaction. A wait for a lock gives its connection back after a few seconds, so that other tables go on.
It must end when nobody waits for it, texts of keys must not depend on the role, and a commit must be durable."""


def lock_number(what: str) -> int:
    """The number of an advisory lock, the same in every router."""
    return int.from_bytes(hashlib.sha256(f"dstream {what}".encode()).digest()[:8], "big", signed=True)


@dataclass(frozen=True, slots=True)
class Own:
    """The tables that DStream keeps for itself, in a schema of their own. `deleted`: the keys of deleted rows, with positions.

    `tables`: of each target, whose rows it has, and the gap that no sweep has followed yet. `snapshots`: where snapshots under way began.
    """

    schema: str

    @property
    def deleted(self) -> str:
        return quoted(self.schema, "deleted_rows")

    @property
    def tables(self) -> str:
        return quoted(self.schema, "target_tables")

    @property
    def snapshots(self) -> str:
        return quoted(self.schema, "snapshots")


def field_names(layout: Layout) -> tuple[str, ...]:
    """The names of the values in the document: those of the messages, or short ones where the server would cut them off."""
    return layout.names if layout.as_written else tuple(f"c{number}" for number in range(len(layout.values)))


@lru_cache(4_096)
def upsert(table: Table, layout: Layout, own: Own) -> str:
    """$1: an array of objects, a row each. $2: their positions. $3: the table's place."""
    fields = ", ".join(f"{quoted(name)} text" for name in field_names(layout))
    read = ", ".join(f"v{number}" for number in range(len(layout.values)))
    values = [expression(column.base, f"u.v{number}") for number, (_, column) in enumerate(layout.values)]
    names = [quoted(column.name) for _, column in layout.values]
    position = quoted(table.position)
    key = {column.name: value for (_, column), value in zip(layout.values, values, strict=True)}
    texts = _key_of(table, [key[column.name] for column in table.key])
    written = [quoted(column.name) for _, column in layout.values if column.key is None] + [position]
    sets = ", ".join(f"{name} = excluded.{name}" for name in written)
    return (
        f"INSERT INTO {table.place} AS t ({', '.join([*names, position])}) OVERRIDING SYSTEM VALUE "
        f"SELECT {', '.join([*values, 'decode(u.p, ' + _HEX + ')'])} "
        f"FROM ROWS FROM (json_to_recordset($1::json) AS ({fields}), unnest($2::text[])) AS u({read}, p) "
        f"WHERE NOT COALESCE((SELECT d.position > decode(u.p, {_HEX}) FROM {own.deleted} d "
        f"WHERE d.target = $3 AND d.key = {texts}), false) "
        f"ON CONFLICT ({_key_names(table)}) DO UPDATE SET {sets} "
        f"WHERE t.{position} IS NULL OR t.{position} <= excluded.{position}"
    )


@lru_cache(1_024)
def delete(table: Table, own: Own) -> str:
    """$1: an array of objects: the key's values `k0`, `k1`, the position `p`, and `r`, whether to remember it. $2: the table's place."""
    keys = list(enumerate(table.key))
    fields = ", ".join(f"k{number} text" for number, _ in keys)
    values = ", ".join(f"{expression(column.base, f'r.k{number}')} AS k{number}" for number, column in keys)
    same = " AND ".join(f"t.{quoted(column.name)} = u.k{number}" for number, column in keys)
    position = quoted(table.position)
    return (
        f"WITH u AS MATERIALIZED (SELECT {values}, decode(r.p, {_HEX}) AS p, r.r AS r "
        f"FROM json_to_recordset($1::json) AS r({fields}, p text, r boolean)), "
        f"gone AS (DELETE FROM {table.place} t USING u WHERE {same} AND (t.{position} IS NULL OR t.{position} <= u.p)) "
        f"INSERT INTO {own.deleted} AS d (target, key, position) "
        f"SELECT $2, {_key_of(table, [f'u.k{number}' for number, _ in keys])}, u.p FROM u WHERE u.r "
        f"ON CONFLICT (target, key) DO UPDATE SET position = excluded.position, deleted_at = now() "
        f"WHERE d.position < excluded.position"
    )


def sweep(table: Table, own: Own) -> str:
    """Removes rows of some pages that no message from behind a gap was about. $1, $2: the first page, and the one behind the last.
    $3: the gap's end as a position. $4: the table's place. Returns nothing."""
    position = quoted(table.position)
    returned = ", ".join(f"t.{quoted(column.name)} AS k{number}" for number, column in enumerate(table.key))
    texts = _key_of(table, [f"gone.k{number}" for number in range(len(table.key))])
    return (
        f"WITH gone AS (DELETE FROM {table.place} t WHERE t.ctid >= format('(%s,0)', $1::bigint)::tid "
        f"AND t.ctid < format('(%s,0)', $2::bigint)::tid "
        f"AND (t.{position} IS NULL OR t.{position} < decode($3, {_HEX})) RETURNING {returned}) "
        f"INSERT INTO {own.deleted} AS d (target, key, position) SELECT $4, {texts}, decode($3, {_HEX}) FROM gone "
        f"ON CONFLICT (target, key) DO UPDATE SET position = excluded.position, deleted_at = now() "
        f"WHERE d.position < excluded.position"
    )


PAGES: Final = (
    "SELECT COALESCE(max(pg_relation_size(c.oid)), 0) / current_setting('block_size')::bigint FROM pg_class c "
    "WHERE c.oid = to_regclass($1) OR c.oid IN (SELECT relid FROM pg_partition_tree(to_regclass($1)))"
)


def claim(own: Own) -> str:
    """Says whose rows a table has: the first one's to ask, unless a person has set it to NULL. $1: the table's place. $2: who asks."""
    return (
        f"INSERT INTO {own.tables} AS s (target, origin) VALUES ($1, $2) "
        f"ON CONFLICT (target) DO UPDATE SET origin = COALESCE(s.origin, excluded.origin) RETURNING origin"
    )


def gap_seen(own: Own) -> str:
    """$1: the table's place. $2: the LSN behind the gap."""
    return (
        f"INSERT INTO {own.tables} AS s (target, gap) VALUES ($1, $2) "
        f"ON CONFLICT (target) DO UPDATE SET gap = GREATEST(s.gap, excluded.gap)"
    )


def snapshot_seen(own: Own) -> str:
    """$1: the table's place. $2: the snapshot. $3: the LSN of one of its rows."""
    return (
        f"INSERT INTO {own.snapshots} AS s (target, snapshot, begun) VALUES ($1, $2, $3) "
        f"ON CONFLICT (target, snapshot) DO UPDATE SET begun = LEAST(s.begun, excluded.begun) WHERE s.begun > excluded.begun"
    )


def snapshot_whole(own: Own) -> str:
    """$1: the table's place. $2: the snapshot whose last row was seen."""
    return (
        f"INSERT INTO {own.tables} AS s (target, whole) "
        f"SELECT target, begun FROM {own.snapshots} WHERE target = $1 AND snapshot = $2 "
        f"ON CONFLICT (target) DO UPDATE SET whole = GREATEST(s.whole, excluded.whole)"
    )


def due_sweep(own: Own) -> str:
    """The LSN behind the gap, if a snapshot from behind it is whole. $1: the table's place."""
    return f"SELECT gap FROM {own.tables} WHERE target = $1 AND gap <> '' AND whole >= gap"


def swept(own: Own) -> str:
    """$1: the table's place. $2: the LSN behind the gap."""
    return f"UPDATE {own.tables} SET gap = '' WHERE target = $1 AND gap = $2"


def forget(own: Own) -> str:
    """Forgets some of the rows that were deleted long ago. $1: the table's place. $2: seconds. $3: how many."""
    return (
        f"DELETE FROM {own.deleted} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {own.deleted} "
        f"WHERE target = $1 AND deleted_at < now() - make_interval(secs => $2) LIMIT $3))"
    )


_HEX: Final = "'hex'"


_LONGEST_KEY: Final = 1_000
"""Bytes of a key that is stored as it is: an index of PostgreSQL takes about 2,700."""
_SHORT: Final = frozenset({"smallint", "integer", "bigint", "uuid", "boolean", "date"})


def _key_of(table: Table, values: Sequence[str]) -> str:
    """The key of a deleted row, of the values of its columns: texts, or the SHA-256 of longer ones, behind one text more than it has columns."""
    texts = [f"CAST({value} AS text)" for value in values]
    key = f"ARRAY[{', '.join(texts)}]"
    if all(column.base in _SHORT for column in table.key):
        return key
    size = " + ".join(f"octet_length({text})" for text in texts)
    digest = f"encode(sha256(convert_to(CAST({key} AS text), 'UTF8')), 'hex')"
    longer = ", ".join(["'#'"] * len(texts) + [digest])
    return f"CASE WHEN {size} > {_LONGEST_KEY} THEN ARRAY[{longer}] ELSE {key} END"


def _key_names(table: Table) -> str:
    return ", ".join(quoted(column.name) for column in table.key)
