"""The `locks` block: one model for each `type`. Opens nothing; `ingester/lock_backends.py` acts on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from common.azure_blob.settings import AccountUrl, ContainerName, StorageString, conflicts_of_account
from common.config.by_type import ByType
from common.config.durations import PositiveDuration
from common.config.settings import Location, Settings


def _lease(duration: timedelta) -> timedelta:
    if not timedelta(seconds=15) <= duration <= timedelta(seconds=60) or duration.microseconds:
        raise ValueError("must be 15s to 60s, in whole seconds: what Azure grants")
    return duration


class LockSettings(Settings):
    """Where the lock of each table is kept, so that one ingester at a time reads it."""

    type: str


class AzureBlobLockSettings(LockSettings):
    """A blob lease for each table. Needs `connection_string` or `account_url`."""

    type: Literal["azure_blob"] = Field(description="`azure_blob`: locks are leases on blobs of a storage account.")
    connection_string: StorageString | None = Field(
        default=None,
        description=(
            "Connection string of the storage account. Secret. This or `account_url` must be given. None, the default: the identity is used."
        ),
    )
    account_url: AccountUrl | None = Field(
        default=None,
        description=(
            "Address of the storage account, `https://ACCOUNT.blob.core.windows.net`, to be used with the identity that the process runs "
            "under (DefaultAzureCredential) instead of a key. None, the default: the connection string has address and key."
        ),
    )
    container_name: ContainerName = Field(
        default="locks", description="Blob container of the leases. `locks` is the name in existing installations."
    )
    lease: Annotated[PositiveDuration, AfterValidator(_lease)] = Field(
        default=timedelta(seconds=60),
        description=(
            "How long a lease lasts, `15s` to `60s`; it is renewed after each third of it. A dead ingester keeps its tables for as long, and "
            "the storage account may be unavailable for as long before anything stops. `60s` allows the longest outage."
        ),
    )

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        return conflicts_of_account(given, 'of type "azure_blob" needs')


class SqlServerLockSettings(LockSettings):
    """The source database is the lock service."""

    type: Literal["sqlserver"] = Field(
        description="`sqlserver`: the source database keeps the locks. It has no further settings."
    )


class LocalLockSettings(LockSettings):
    """Locks of this process alone, for a laptop."""

    type: Literal["local"] = Field(
        description="`local`: only this process knows the locks, so there must be no other ingester. It has no further settings."
    )


LocksBlock = Annotated[
    LockSettings,
    ByType({"azure_blob": AzureBlobLockSettings, "sqlserver": SqlServerLockSettings, "local": LocalLockSettings}),
]
"""A new type of lock is one more model here, and its adapter in `ingester/lock_backends.py`."""
