"""A client of a storage account, by a key, a signature, or the identity that the process runs under. Sends nothing."""

from __future__ import annotations

from typing import Any

from azure.storage.blob import BlobServiceClient

from common.azure_blob.settings import ROLE
from common.azure_identity import Identity
from common.errors import ConfigurationError


def service_of(
    *, connection_string: str | None, account_url: str | None, seconds: float, setting: str
) -> BlobServiceClient:
    """A client that gives up on a request within `seconds`, and on a token within half of that.

    It repeats neither: the caller does, and knows until when. With `account_url` the identity is the environment's own,
    found by DefaultAzureCredential. `setting`: that holds the connection string. Raises ConfigurationError.
    """
    half = max(1.0, seconds / 2)
    options: dict[str, Any] = {"retry_total": 0, "connection_timeout": half, "read_timeout": half}
    if connection_string is not None:
        try:
            return BlobServiceClient.from_connection_string(connection_string, **options)
        except ValueError:
            raise ConfigurationError([f"{setting} is not a storage account's connection string"]) from None
    assert account_url is not None
    return BlobServiceClient(account_url, credential=Identity(roles=ROLE, seconds=half), **options)
