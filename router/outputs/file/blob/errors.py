"""Translates the storage account's errors into DStream's, as users of an output act on them.

https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from azure.core.exceptions import AzureError

from common.azure_blob.errors import code_of, status_of, translated
from common.errors import DStreamError, EntityMissing, EntityUnavailable, PermanentError, Throttled

_KEY = "connection_string of the output"
_MISSING = {"ContainerNotFound", "ContainerDisabled"}
_BUSY_STATUS = {429, 503}


def in_words(error: AzureError, doing: str, *, proven: bool) -> DStreamError:
    """`proven`: the account has answered before."""
    status, code = status_of(error), code_of(error)
    found = translated(error, doing, proven=proven, setting=_KEY)
    if code in _MISSING:
        return EntityMissing(found.message, hint='create the container, or set provision = "create"')
    if status in _BUSY_STATUS:
        return Throttled(found.message)
    if isinstance(found, PermanentError):
        return EntityUnavailable(found.message, hint=found.hint)
    return found


@contextmanager
def translating(doing: str, *, proven: bool = True) -> Iterator[None]:
    try:
        yield
    except AzureError as error:
        raise in_words(error, doing, proven=proven) from error


def changed(error: AzureError) -> bool:
    """Whether the blob is not as the condition of the request has it: another process was first."""
    return status_of(error) in {404, 409, 412} and code_of(error) not in {*_MISSING, "ContainerBeingDeleted"}


def in_doubt(error: AzureError) -> bool:
    """Whether the account may have done what it was asked: it did not answer, or does not know itself."""
    status = status_of(error)
    return status is None or (status >= 500 and status not in _BUSY_STATUS)
