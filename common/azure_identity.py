"""The identity that a process runs under, in place of a key: tokens of Microsoft Entra ID, found by DefaultAzureCredential.

The only module that knows azure-identity. Which identity it is, the environment says (docs/operations.md, "Identities instead of
keys"); nothing here chooses one, and no token or key is shown or logged here.
https://learn.microsoft.com/azure/developer/python/sdk/authentication/credential-chains
"""

from __future__ import annotations

import threading
import time
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

_ONE_REQUEST = {"connection_timeout": 5, "read_timeout": 5, "retry_total": 1}
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


def default_credential() -> Any:
    """A new DefaultAzureCredential, to be closed by the caller. Raises ValueError when its environment variables make no sense."""
    from azure.identity import DefaultAzureCredential  # slow to import, and needed by few

    return DefaultAzureCredential(**_ONE_REQUEST)


class Identity:
    """A TokenCredential for the SDK: made at the first token, kept for all that follow; callable from any thread.

    `proven`: this identity has had a token before, so that one which cannot be had now is a passing trouble. Before that, the answer
    of a metadata endpoint that is late cannot be told from there being none, and counts as none. `roles`: what to assign to it, for errors.
    `seconds`: the longest wait for a token, TOKEN_TIMEOUT if None.

    Azure's clients ask for another token minutes before theirs runs out, and give up their request when none comes; so the last one is
    given again for as long as it is good, where the credential hangs; where it fails it gives its own last one.
    """

    def __init__(self, *, proven: bool = False, roles: str = SERVICE_BUS_ROLES, seconds: float | None = None) -> None:
        self._proven = proven
        self._roles = roles
        self._seconds = seconds
        self._credential: TokenCredential | None = None
        self._last: dict[tuple[str, ...], AccessToken] = {}
        self._guard = threading.Lock()

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """Raises PermanentError when there is no identity, TransientError when it cannot be asked now."""
        try:
            token = in_time(
                TOKEN_TIMEOUT if self._seconds is None else self._seconds,
                lambda: self._made().get_token(*scopes, **options),
                same=("token", id(self), scopes),
            )
        except (AzureError, OSError, ValueError) as error:
            if isinstance(error, TimeoutError) and (last := self._still_good(scopes, options)) is not None:
                return last
            raise self._translate(error) from error
        self._proven = True
        self._last[scopes] = token
        return token

    def _still_good(self, scopes: tuple[str, ...], options: dict[str, Any]) -> AccessToken | None:
        """With claims the service has said that it takes the last token no longer."""
        last = self._last.get(scopes)
        return last if last and not options.get("claims") and last.expires_on > time.time() + _LASTS else None

    def close(self) -> None:
        """Close what the credential holds open; a token that is wanted afterwards opens it anew."""
        with self._guard:
            credential, self._credential = self._credential, None
        if credential is not None:
            credential.close()  # type: ignore[attr-defined]  # the protocol has no close; DefaultAzureCredential does

    def _made(self) -> TokenCredential:
        with self._guard:
            if self._credential is None:
                self._credential = default_credential()
            return self._credential

    def _translate(self, error: Exception) -> DStreamError:
        told = " ".join(str(error).split())[:MAX_TEXT] or type(error).__name__
        text = f"asking for a token of Microsoft Entra ID: {told}"
        status = getattr(error, "status_code", None) or 0
        unanswered = isinstance(error, (AzureError, OSError)) and not isinstance(error, ClientAuthenticationError)
        if self._proven or unanswered or status in _PASSING_STATUS or status >= 500:
            return TransientError(text)
        return PermanentError(text, hint=_HINT + self._roles)
