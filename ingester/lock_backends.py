"""Settings to the locks of the tables: their type and their names. Takes no lock."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from common.clock import unix
from common.names import TableName
from ingester.blocks.locks import AzureBlobLockSettings, LocalLockSettings, SqlServerLockSettings
from ingester.local.locks import LocalLocks
from ingester.locks import Locks
from ingester.settings import IngesterSettings
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.locks import QUERY_SECONDS, SqlServerLocks

MOST_SHARING = 64
"""The most ingesters that are counted. Further ones, and more than there are tables, stand by."""


def locks_of(settings: IngesterSettings, keys: Mapping[str, str]) -> Locks:
    """`keys`: the `lock_keys` of all tables; later ones may be added. Opens nothing. Raises ConfigurationError."""
    match settings.locks:
        case LocalLockSettings():
            return LocalLocks(unix)
        case SqlServerLockSettings():
            return SqlServerLocks(Connection(settings.db, query_seconds=QUERY_SECONDS), keys)
        case AzureBlobLockSettings() as given:
            from ingester.azure_blob import locks as blob  # the SDK is slow to import, and only needed here

            lease_seconds, secret = int(given.lease.total_seconds()), given.connection_string
            service = blob.connect(
                connection_string=secret.get_secret_value() if secret is not None else None,
                account_url=given.account_url,
                seconds=blob.margin(lease_seconds),
            )
            return blob.AzureBlobLocks(service, given.container_name, lease_seconds=lease_seconds)
        case _:
            raise AssertionError(f"no locks for {type(settings.locks).__name__}")


def lock_names(settings: IngesterSettings, tables: Sequence[TableName]) -> dict[TableName, str]:
    """The lock of each of `tables`."""
    return {table: settings.origin.lock_path(table) for table in tables}


def lock_keys(settings: IngesterSettings, tables: Sequence[TableName]) -> dict[str, str]:
    """The offset's key of each table's lock."""
    return {lock: table.key for table, lock in lock_names(settings, tables).items()}


def scan_lock(settings: IngesterSettings) -> str:
    """The lock whose owner scans the log of the database. A name with one dot is never that of a table's lock."""
    return f"{posixpath.dirname(settings.origin.lock_path(TableName('dbo', 'any')))}/log-scan.lock"


def places(settings: IngesterSettings, tables: int) -> list[str]:
    """Names of the locks by which ingesters count each other, as many as there are tables. A name with one dot is never that of a table's lock."""
    if isinstance(settings.locks, LocalLockSettings):
        return []
    folder = posixpath.dirname(settings.origin.lock_path(TableName("dbo", "any")))
    return [f"{folder}/ingester-{number}.lock" for number in range(min(MOST_SHARING, tables))]
