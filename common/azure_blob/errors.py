"""Translates the storage account's errors into DStream's.

An error text gives the code and the status, and never quotes the account: a request's address may hold a shared access
signature.
https://learn.microsoft.com/en-us/rest/api/storageservices/blob-service-error-codes
"""

from __future__ import annotations

from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError

from common.errors import DStreamError, PermanentError, TransientError

TAKEN = {"LeaseAlreadyPresent", "LeaseIsBreakingAndCannotBeAcquired"}
"""Another owner's lease has not ended yet."""

_PASSING = {"ContainerBeingDeleted", "OperationTimedOut", "ServerBusy", "InternalError"}
_PASSING_STATUS = {408, 429}
_REFUSED_STATUS = {401, 403}
RIGHTS = (
    'the identity needs the role "Storage Blob Data Contributor" on the container; a shared access signature needs read, add, create, '
    "write and list, and for files delete; and the account's network rules must let this machine in"
)
_REACH = "check the account's address, and that a firewall lets this machine out to it (port 443)"
LISTING_NOT_COVERED = {"AuthorizationPermissionMismatch", "AuthorizationResourceTypeMismatch"}
"""Answers to a signature that may use the container's blobs, but may not ask about the container itself."""


def code_of(error: AzureError) -> str:
    """The storage account's name for the error; empty when it did not answer."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")


def status_of(error: AzureError) -> int | None:
    """The HTTP status of the answer; None without an answer."""
    return error.status_code if isinstance(error, HttpResponseError) else None


def translated(error: AzureError, doing: str, *, proven: bool, setting: str) -> DStreamError:
    """`proven`: the account has answered this identity before, so a token that is missing now is a passing trouble. `setting`: that holds a key."""
    status, code = status_of(error), code_of(error)
    answered = f"{doing}: the storage account answered {status} {code}".rstrip()
    if status in _PASSING_STATUS or code in _PASSING or (status is not None and status >= 500):
        return TransientError(answered)
    if status in _REFUSED_STATUS:
        key = f"check the key in {setting} and this machine's clock; "
        return PermanentError(answered, hint=(key if code == "AuthenticationFailed" else "") + RIGHTS)
    if isinstance(error, ClientAuthenticationError):
        problem = f"{doing}: no credential for the storage account ({type(error).__name__})"
        hint = f"check the key in {setting}, or the identity that this machine runs under"
        return TransientError(problem, hint=hint) if proven else PermanentError(problem, hint=hint)
    if status is not None:
        return PermanentError(answered)
    return TransientError(f"{doing}: no answer from the storage account ({type(error).__name__})", hint=_REACH)
