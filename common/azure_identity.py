"""The identity that a process runs under, in place of a key: tokens of Microsoft Entra ID, found by DefaultAzureCredential.

The only module that knows azure-identity. The environment, or an address of SQL Server, chooses the identity (docs/install.md,
"Identities instead of keys"). No token or key is shown or logged here.
https://learn.microsoft.com/azure/developer/python/sdk/authentication/credential-chains
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any

from azure.core.credentials import AccessToken, TokenCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError

from common.errors import DStreamError, PermanentError, TransientError
from common.in_time import in_time

MAX_TEXT = 1_500
"""Characters kept of the credential's error: it lists each kind of identity that it looked for, the managed one third."""

TOKEN_TIMEOUT = 15.0
"""Seconds to wait for a token, less than the time to open a link. The credential asks one place after the other, each with waits of its own.
A token that comes later is there at the next attempt."""

_ONE_REQUEST: Mapping[str, Any] = {"connection_timeout": 5, "read_timeout": 5, "retry_total": 1}
"""For each place that the credential asks. The defaults are 300 s for a connection, 300 s for an answer, and several attempts: an abandoned
thread would be busy for that long, and the next request for a token would join it."""

_LASTS = 30.0
"""Seconds that a token must still be valid to be used again when a new one is unavailable."""

_PASSING_STATUS = {408, 410, 429}
"""410: the metadata endpoint is being updated, for up to 70 s
(https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token#error-handling)."""

SERVICE_BUS_ROLES = (
    "Azure Service Bus Data Sender, Azure Service Bus Data Receiver, and Azure Service Bus Data Owner for provisioning"
)

_HINT = (
    "give this machine a managed identity or a workload identity (AZURE_CLIENT_ID chooses among several), or sign in with the Azure CLI, "
    "and assign it its roles: "
)

_RENEWED = 300.0
"""A token that is valid for fewer seconds is replaced. Azure's own clients begin at the same moment (azure-core's
BearerTokenCredentialPolicy), and a login to SQL Server takes less; its session outlives the token.
https://learn.microsoft.com/entra/identity-platform/configurable-token-lifetimes"""

_SQL_SCOPE = "https://database.windows.net/.default"
_SQL_HINT = (
    "give this machine a managed identity or a workload identity (User Id in the connection string chooses among several by client id), and "
    "make it a user of the database: CREATE USER [its name] FROM EXTERNAL PROVIDER"
)


def default_credential() -> Any:
    """A new DefaultAzureCredential, to be closed by the caller. Raises ValueError when its environment variables are invalid."""
    from azure.identity import DefaultAzureCredential  # slow to import, and needed by few

    return DefaultAzureCredential(**_ONE_REQUEST)


def credential_of(kind: str, client_id: str) -> Any:
    """A new credential: of a "managed" or a "workload" identity, or whichever is found ("default"). Raises ValueError like the above.

    `client_id`: of one of several identities; "" for the only one, or the one that AZURE_CLIENT_ID names.
    """
    from azure.identity import DefaultAzureCredential, ManagedIdentityCredential, WorkloadIdentityCredential

    chosen = client_id or os.environ.get("AZURE_CLIENT_ID") or None
    if kind == "managed":
        return ManagedIdentityCredential(client_id=chosen, **_ONE_REQUEST)
    if kind == "workload":
        return WorkloadIdentityCredential(client_id=chosen, **_ONE_REQUEST)
    if client_id:
        return DefaultAzureCredential(
            managed_identity_client_id=client_id, workload_identity_client_id=client_id, **_ONE_REQUEST
        )
    return default_credential()


class Identity:
    """A TokenCredential for the SDK: made at the first token, kept for all that follow; callable from any thread.

    `proven`: this identity has had a token before, so a failure is transient. Before that, a metadata endpoint that answers late looks
    the same as none, and counts as none. `roles`: what to assign to the identity, for errors.
    `seconds`: the longest wait for a token, TOKEN_TIMEOUT if None.

    A token is kept until five minutes before it expires, because not every credential caches (AzureCliCredential starts a process for
    each token). One thread fetches the next token, and the others wait for it. When the credential hangs or fails for a while (no
    connection, 429, 5xx), the last token is returned as long as it is valid: Azure's clients request a new one minutes before theirs
    expires, and fail when none comes. A refusal is never hidden in this way.
    """

    def __init__(
        self,
        *,
        proven: bool = False,
        roles: str = SERVICE_BUS_ROLES,
        seconds: float | None = None,
        credential: Callable[[], Any] | None = None,
        hint: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`credential` makes the credential to use. `hint`: what to do without an identity, in place of `roles`. `clock`: as time.time."""
        self._proven = proven
        self._hint = _HINT + roles if hint is None else hint
        self._seconds = seconds
        self._make = credential or (lambda: default_credential())
        self._clock = clock
        self._credential: TokenCredential | None = None
        self._kept: dict[Hashable, AccessToken] = {}
        self._guard = threading.Lock()

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """Raises PermanentError without an identity, TransientError when it cannot be asked now."""
        key = (scopes, tuple(sorted(options.items())))
        if (kept := self._good(key, options, for_seconds=_RENEWED)) is not None:
            return kept
        try:
            return in_time(
                TOKEN_TIMEOUT if self._seconds is None else self._seconds,
                lambda: self._fetched(key, scopes, options),
                same=("token", id(self), key),
            )
        except (AzureError, OSError, ValueError) as error:
            if _passing(error) and (last := self._good(key, options, for_seconds=_LASTS)) is not None:
                return last
            raise self._translate(error) from error

    def _fetched(self, key: Hashable, scopes: tuple[str, ...], options: dict[str, Any]) -> AccessToken:
        """In the one thread that asks: another may have got the token between a caller's look and this."""
        if (kept := self._good(key, options, for_seconds=_RENEWED)) is not None:
            return kept
        token = self._kept[key] = self._made().get_token(*scopes, **options)
        self._proven = True
        return token

    def _good(self, key: Hashable, options: dict[str, Any], *, for_seconds: float) -> AccessToken | None:
        """None with claims: the service no longer accepts the last token then."""
        kept = self._kept.get(key)
        return kept if kept and not options.get("claims") and kept.expires_on > self._clock() + for_seconds else None

    def forget(self) -> None:
        """After a refusal: the next tokens may have what these lacked."""
        self._kept.clear()

    def close(self) -> None:
        """Close what the credential holds open; the next request for a token opens it again."""
        with self._guard:
            credential, self._credential = self._credential, None
        if credential is not None:
            credential.close()  # type: ignore[attr-defined]  # the protocol has no close; DefaultAzureCredential does

    def _made(self) -> TokenCredential:
        with self._guard:
            if self._credential is None:
                self._credential = self._make()
            return self._credential

    def _translate(self, error: Exception) -> DStreamError:
        told = " ".join(str(error).split())[:MAX_TEXT] or type(error).__name__
        text = f"asking for a token of Microsoft Entra ID: {told}"
        if self._proven or _passing(error):
            return TransientError(text)
        return PermanentError(text, hint=self._hint)


def _passing(error: Exception) -> bool:
    """Whether the same identity may get a token later: there was no answer, or the answer was that it cannot be had now."""
    status = getattr(error, "status_code", None) or 0
    unanswered = isinstance(error, (AzureError, OSError)) and not isinstance(error, ClientAuthenticationError)
    return unanswered or status in _PASSING_STATUS or status >= 500


class SqlTokens:
    """Tokens to log in to SQL Server with, of one identity. Callable from any thread."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def get(self) -> str:
        """Raises as Identity.get_token."""
        return self._identity.get_token(_SQL_SCOPE).token

    def forget(self) -> None:
        """After a refusal: a token may hold rights, and the next one may have what this one lacked."""
        self._identity.forget()


@cache
def sql_tokens(kind: str, client_id: str) -> SqlTokens:
    """One for all connections of the process; see `credential_of`."""
    return SqlTokens(Identity(credential=lambda: credential_of(kind, client_id), hint=_SQL_HINT))
