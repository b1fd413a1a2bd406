"""Where requests go and what each of them carries beside the change: address, credentials, signature. Its repr shows none of them. Pure."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping

from router.outputs.webhook.requests import Request
from router.outputs.webhook.settings import WebhookSettings
from router.outputs.webhook.signature import key_of, signed


class Target:
    """`where`: the address without its query, for a person. `url`: with it, which is secret."""

    def __init__(self, settings: WebhookSettings, where: str) -> None:
        """Raises ConfigurationError for an environment variable that is not set."""
        query = "" if settings.query is None else "?" + settings.query.get_secret_value().lstrip("?")
        self.where = where
        self.url = where + query
        self.method = settings.method
        self.batch = settings.batch
        self.concurrency = settings.concurrency
        self.seconds = settings.seconds
        self.refused: Collection[int] = frozenset(settings.refused_statuses)
        secrets = (settings.signing_secret, settings.other_signing_secret)
        self._keys = [key_of(each.get_secret_value()) for each in secrets if each is not None]
        self.always: Mapping[str, str] = _always(settings)

    def __repr__(self) -> str:
        return f"<Target {self.method} {self.where}>"

    def signed(self, request: Request, now: int) -> Mapping[str, str]:
        """The headers of `request`, sent at this Unix time."""
        headers = {**self.always, **request.headers, "webhook-timestamp": str(now)}
        if self._keys:
            headers["webhook-signature"] = signed(self._keys, request.id, now, request.body)
        return headers


def _always(settings: WebhookSettings) -> Mapping[str, str]:
    found = {name.lower(): value.get_secret_value() for name, value in settings.headers.items()}
    if settings.bearer_token is not None:
        found["authorization"] = f"Bearer {settings.bearer_token.get_secret_value()}"
    elif settings.username is not None and settings.password is not None:
        pair = f"{settings.username}:{settings.password.get_secret_value()}".encode()
        found["authorization"] = f"Basic {base64.b64encode(pair).decode('ascii')}"
    return found
