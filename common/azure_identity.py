"""The identity that a process runs under, in place of a key: tokens of Microsoft Entra ID, found by DefaultAzureCredential.

The only module that knows azure-identity. Which identity it is, the environment says (docs/operations.md, "Identities instead of
keys"); nothing here chooses one, and no token or key is kept, shown or logged here.
https://learn.microsoft.com/azure/developer/python/sdk/authentication/credential-chains
"""

from __future__ import annotations

import threading
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

_PASSING_STATUS = {408, 410, 429}
"""410: the metadata endpoint is being updated, for up to 70 s
(https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token#error-handling)."""

_HINT = (
    "give this machine a managed identity or a workload identity (AZURE_CLIENT_ID chooses among several), or sign in with the Azure CLI, "
    "and assign it its roles: Azure Service Bus Data Sender, Azure Service Bus Data Receiver, and Azure Service Bus Data Owner for provisioning"
)


def default_credential() -> Any:
    """A new DefaultAzureCredential, to be closed by the caller. Raises ValueError when its environment variables make no sense."""
    from azure.identity import DefaultAzureCredential  # slow to import, and needed by few

    return DefaultAzureCredential()


class Identity:
    """A TokenCredential for the SDK: made at the first token, kept for all that follow; callable from any thread.

    `proven`: this identity has had a token before, so that one which cannot be had now is a passing trouble. Before that, the answer
    of a metadata endpoint that is late cannot be told from there being none, and counts as none.
    """

    def __init__(self, *, proven: bool = False) -> None:
        self._proven = proven
        self._credential: TokenCredential | None = None
        self._guard = threading.Lock()

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """Raises PermanentError when there is no identity, TransientError when it cannot be asked now."""
        try:
            token = in_time(
                TOKEN_TIMEOUT, lambda: self._made().get_token(*scopes, **options), same=("token", id(self), scopes)
            )
        except (AzureError, OSError, ValueError) as error:
            raise self._translate(error) from error
        self._proven = True
        return token

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
        return PermanentError(text, hint=_HINT)
