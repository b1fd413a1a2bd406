"""The identity that a process runs under, in place of a key: tokens of Microsoft Entra ID, found by DefaultAzureCredential.

The only module that knows azure-identity. Which identity it is, the environment says (docs/operations.md, "Identities instead of
keys"), or an address of SQL Server. No token or key is shown or logged here.
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
"""Characters that are kept of what the credential says: it tells of each kind of identity that it looked for, the managed one third."""

TOKEN_TIMEOUT = 15.0
"""Seconds for a token, less than a link has to be opened: the credential asks one place after the other, each with waits of its own. One that
comes later is there at the next attempt."""

_ONE_REQUEST: Mapping[str, Any] = {"connection_timeout": 5, "read_timeout": 5, "retry_total": 1}
"""For each place that the credential asks. Its own are 300 s for a connection and 300 s for an answer, and several attempts: a thread that was
left alone would be busy for that long, and whoever asks again joins it."""

_LASTS = 30.0
"""Seconds that a token must be good for yet, to be given once more when another cannot be had."""

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
"""Seconds that a token must still be good for, or another is asked for: Azure's own clients begin at the same moment (azure-core's
BearerTokenCredentialPolicy), and a login to SQL Server takes less; its session outlives the token.
https://learn.microsoft.com/entra/identity-platform/configurable-token-lifetimes"""

_SQL_SCOPE = "https://database.windows.net/.default"
_SQL_HINT = (
    "give this machine a managed identity or a workload identity (User Id in the connection string chooses among several by client id), and "
    "make it a user of the database: CREATE USER [its name] FROM EXTERNAL PROVIDER"
)


def default_credential() -> Any:
    """A new DefaultAzureCredential, to be closed by the caller. Raises ValueError when its environment variables make no sense."""
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

    `proven`: this identity has had a token before, so that one which cannot be had now is a passing trouble. Before that, the answer
    of a metadata endpoint that is late cannot be told from there being none, and counts as none. `roles`: what to assign to it, for errors.
    `seconds`: the longest wait for a token, TOKEN_TIMEOUT if None.

    A token is kept until five minutes before its end, since not every credential keeps its own (AzureCliCredential starts a process for
    each); one thread asks for the next one, and the others wait for the same. Where the credential hangs or has a passing trouble (no
    connection, 429, 5xx), the last token is given for as long as it is good: Azure's clients ask for another minutes before theirs runs out,
    and give up their request when none comes. A refusal is never bridged.
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
        """`credential`: makes another one than the default; `hint`: what to do where there is none, instead of roles. `clock`: as time.time."""
        self._proven = proven
        self._hint = _HINT + roles if hint is None else hint
        self._seconds = seconds
        self._make = credential or (lambda: default_credential())
        self._clock = clock
        self._credential: TokenCredential | None = None
        self._kept: dict[Hashable, AccessToken] = {}
        self._guard = threading.Lock()

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """Raises PermanentError when there is no identity, TransientError when it cannot be asked now."""
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
        """With claims the service has said that it takes the last token no longer."""
        kept = self._kept.get(key)
        return kept if kept and not options.get("claims") and kept.expires_on > self._clock() + for_seconds else None

    def forget(self) -> None:
        """After a refusal: what the tokens were refused for may be put right in the next ones."""
        self._kept.clear()

    def close(self) -> None:
        """Close what the credential holds open; a token that is asked for afterwards opens it again."""
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
    """Whether the same identity may have a token later: nobody answered, or answered that they cannot now."""
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
        """After a refusal: rights may be in a token, and what it was refused for may be put right in the next."""
        self._identity.forget()


@cache
def sql_tokens(kind: str, client_id: str) -> SqlTokens:
    """One for all connections of the process; see `credential_of`."""
    return SqlTokens(Identity(credential=lambda: credential_of(kind, client_id), hint=_SQL_HINT))
