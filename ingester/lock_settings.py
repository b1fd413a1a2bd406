"""The `locks` block: one model for each `type`. Opens nothing; `ingester/lock_backends.py` acts on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from common.config.by_type import ByType
from common.config.durations import PositiveDuration
from common.config.settings import Location, Secret, Settings, UnsetSecret

_STORAGE = "DefaultEndpointsProtocol=https;AccountName=NAME;AccountKey=KEY;EndpointSuffix=core.windows.net"


def _storage_string(secret: SecretStr) -> SecretStr:
    """Read as azure-storage-blob reads it; its own error would not name the place in the file."""
    if isinstance(secret, UnsetSecret):
        return secret
    pieces = [piece.partition("=") for piece in secret.get_secret_value().rstrip(";").split(";")]
    parts = {name.lower(): value for name, _, value in pieces}
    if not all(equals for _, equals, _ in pieces) or not parts.keys() & {
        "accountname",
        "blobendpoint",
        "usedevelopmentstorage",
    }:
        raise ValueError(f"is not a storage account's connection string: it should read {_STORAGE}")
    if not parts.keys() & {"accountkey", "sharedaccesssignature", "usedevelopmentstorage"}:
        raise ValueError(f"has no AccountKey and no SharedAccessSignature: it should read {_STORAGE}")
    if "usedevelopmentstorage" not in parts and not _has_host(_endpoint(parts)):
        raise ValueError(f"does not have the address of a storage account: it should read {_STORAGE}")
    return secret


def _endpoint(parts: Mapping[str, str]) -> str:
    """As azure-storage-blob makes it: an address without a scheme is one of https."""
    protocol, suffix = (
        parts.get("defaultendpointsprotocol") or "https",
        parts.get("endpointsuffix") or "core.windows.net",
    )
    url = parts.get("blobendpoint") or f"{protocol}://{parts.get('accountname', '')}.blob.{suffix}"
    return url if url.lower().startswith("http") else f"https://{url}"


def _has_host(url: str) -> bool:
    try:
        address = urlsplit(url)
        return address.scheme.lower() in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        return False


def _container_name(text: str) -> str:
    if not re.fullmatch(r"(?=.{3,63}\Z)[a-z0-9]+(-[a-z0-9]+)*", text):
        raise ValueError("must be 3 to 63 lower-case letters, digits and single hyphens: a blob container's name")
    return text


def _account_url(text: str) -> str:
    if not re.fullmatch(r"https://[A-Za-z0-9][A-Za-z0-9.-]*(:\d+)?(/[A-Za-z0-9-]*)?", text):
        raise ValueError("must be the blob endpoint's address: https://ACCOUNT.blob.core.windows.net")
    return text


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
    connection_string: Annotated[Secret, AfterValidator(_storage_string)] | None = Field(
        default=None,
        description=(
            "Connection string of the storage account. Secret. This or `account_url` must be given. None, the default: the identity is used."
        ),
    )
    account_url: Annotated[str, AfterValidator(_account_url)] | None = Field(
        default=None,
        description=(
            "Address of the storage account, `https://ACCOUNT.blob.core.windows.net`, to be used with the identity that the process runs "
            "under (DefaultAzureCredential) instead of a key. None, the default: the connection string has address and key."
        ),
    )
    container_name: Annotated[str, AfterValidator(_container_name)] = Field(
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
        by_key, by_identity = (given.get(key) is not None for key in ("connection_string", "account_url"))
        if not by_key and not by_identity:
            yield (), 'of type "azure_blob" needs connection_string or account_url'
        if by_key and by_identity:
            yield (), "has both a connection_string and an account_url; give only one of them"


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
