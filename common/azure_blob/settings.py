"""How the settings of a storage account are read. Opens nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr

from common.config.settings import Location, Secret, UnsetSecret

ROLE = "Storage Blob Data Contributor on the container"
"""What an identity needs."""

_STORAGE = "DefaultEndpointsProtocol=https;AccountName=NAME;AccountKey=KEY;EndpointSuffix=core.windows.net"


def _storage_string(secret: SecretStr) -> SecretStr:
    """Read as azure-storage-blob reads it; its own error would not name the place in the file."""
    if isinstance(secret, UnsetSecret):
        return secret
    parts = _parts(secret)
    if not all("=" in piece for piece in _pieces(secret)) or not parts.keys() & {
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


StorageString = Annotated[Secret, AfterValidator(_storage_string)]
"""A storage account's connection string."""

AccountUrl = Annotated[str, AfterValidator(_account_url)]
"""The address of its blobs."""

ContainerName = Annotated[str, AfterValidator(_container_name)]


def conflicts_of_account(given: Mapping[str, Any], called: str) -> Iterator[tuple[Location, str]]:
    """Where a block has no way to an account, or two. `called`: the block, and "needs"."""
    by_key, by_identity = (given.get(key) is not None for key in ("connection_string", "account_url"))
    if not by_key and not by_identity:
        yield (), f"{called} connection_string or account_url"
    if by_key and by_identity:
        yield (), "has both a connection_string and an account_url; give only one of them"


def host_of(secret: SecretStr) -> str:
    """The host of an account, for a person. Raises ConfigurationError when its environment variable is not set."""
    parts = _parts(secret)
    return urlsplit(_endpoint(parts)).netloc if "usedevelopmentstorage" not in parts else "the local emulator"


def _parts(secret: SecretStr) -> dict[str, str]:
    pieces = [piece.partition("=") for piece in _pieces(secret)]
    return {name.lower(): value for name, _, value in pieces}


def _pieces(secret: SecretStr) -> list[str]:
    return secret.get_secret_value().rstrip(";").split(";")
