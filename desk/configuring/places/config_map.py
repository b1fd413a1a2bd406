"""A configuration in a ConfigMap: read and changed through the API server, because the volume that pods have of it is read-only.

Needs the rights `get` and `patch` on this one ConfigMap (deploy/kubernetes/components/console). Refuses to write over another change: a write
names the version that was read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from common.errors import ConfigurationError, PermanentError
from desk.configuring.places.api_server import Answer
from desk.configuring.places.port import Content
from desk.desk import Conflict

Call = Callable[..., Answer]
"""As `ApiServer.call`."""

_KEY = "dstream.hcl"
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_IMMUTABLE = "it is marked as immutable"
_MOST = 1 << 20
Outcome = Literal["reading", "changing"]


@dataclass(frozen=True, slots=True)
class ConfigMapName:
    namespace: str
    name: str
    key: str = _KEY

    @classmethod
    def parse(cls, text: str) -> ConfigMapName:
        """Read `NAMESPACE/NAME[/KEY]`. Raises ConfigurationError."""
        parts = text.split("/")
        fits = (
            2 <= len(parts) <= 3 and all(map(_NAME.fullmatch, parts[:2])) and all(map(_DATA_KEY.fullmatch, parts[2:]))
        )
        if not fits:
            raise ConfigurationError([f"--configmap {text!r} is not NAMESPACE/NAME or NAMESPACE/NAME/KEY"])
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}/{self.key}"


class ConfigMapPlace:
    """`call`: of the API server."""

    delay = "the kubelet brings a changed ConfigMap to the pods, mostly within two minutes"

    def __init__(self, name: ConfigMapName, call: Call) -> None:
        self._name = name
        self._call = call
        self._immutable = False

    @property
    def name(self) -> str:
        return f"ConfigMap {self._name}"

    def read(self) -> Content:
        found = self._answered(self._call("GET", self._path), "reading")
        self._immutable = found.get("immutable") is True
        data = found.get("data") or {}
        text = data.get(self._name.key)
        if not isinstance(text, str):
            held = ", ".join(sorted(data)) or "nothing"
            raise PermanentError(f"reading {self.name}: it has no text under this key", hint=f"it has {held}")
        return Content(text.encode(), str((found.get("metadata") or {}).get("resourceVersion", "")))

    def why_not(self) -> str | None:
        return f"{self.name}: {_IMMUTABLE}" if self._immutable else None

    def write(self, data: bytes, instead_of: Content) -> None:
        if len(data) > _MOST:
            raise ConfigurationError([f"{self.name}: the configuration is longer than a ConfigMap may be (1 MiB)"])
        change: dict[str, Any] = {
            "metadata": {"resourceVersion": instead_of.version},
            "data": {self._name.key: data.decode()},
        }
        self._answered(self._call("PATCH", self._path, change, kind="merge-patch+json"), "changing")

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{quote(self._name.namespace, '')}/configmaps/{quote(self._name.name, '')}"

    def _answered(self, answer: Answer, doing: Outcome) -> dict[str, Any]:
        if answer.status == 200:
            return dict(answer.document)
        text = f"{doing} {self.name}: {answer.message}"
        if answer.status == 409:
            raise Conflict(f"{doing} {self.name}: somebody else has changed it meanwhile", hint="look at it again")
        if answer.status == 404:
            raise PermanentError(text, hint="create it, or correct --configmap")
        if answer.status in (401, 403):
            hint = "bind the Role of deploy/kubernetes/components/console to the account of the console's pod"
            raise PermanentError(text, hint=hint)
        raise PermanentError(text)
