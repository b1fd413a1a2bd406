"""A pod's way to the API server of its cluster: two calls over TLS, with the pod's own account, each over within a deadline.

Python's HTTP client and no library (docs/decisions/0045-editing-hcl.md). The token is read for each call, because the kubelet replaces it. Refuses
to follow redirects, and to show a token.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import PermanentError, TransientError
from common.in_time import in_time

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SECONDS = 10.0
_EACH_WAIT = 5.0
_MOST = 4 << 20
"""Octets of an answer; a ConfigMap has at most 1 MiB."""
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    document: Mapping[str, Any]

    @property
    def message(self) -> str:
        """In the server's words."""
        return str(self.document.get("message") or http.client.responses.get(self.status, self.status))


@dataclass(frozen=True, slots=True)
class ApiServer:
    """`account`: the folder with `token` and `ca.crt`, as a pod has it."""

    host: str
    port: int
    account: Path = _ACCOUNT

    @classmethod
    def of_pod(cls, environ: Mapping[str, str], account: Path = _ACCOUNT) -> ApiServer:
        """Raises PermanentError outside of a cluster."""
        host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host or not port.isdigit():
            raise PermanentError(
                "finding the API server: KUBERNETES_SERVICE_HOST is not set, so this is no pod",
                hint="use --configmap inside of the cluster only",
            )
        return cls(host, int(port), account)

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, kind: str = "json") -> Answer:
        """`kind`: of the body. Raises TransientError where another try may help, and PermanentError."""
        try:
            same = (self, path) if method == "GET" else None
            return in_time(_SECONDS, lambda: self._called(method, path, body, kind), same=same, name="api-server")
        except TimeoutError:
            raise TransientError(f"asking the API server: no answer within {_SECONDS:.0f} s") from None

    def _called(self, method: str, path: str, body: Mapping[str, Any] | None, kind: str) -> Answer:
        token, trust = self._token(), self._trust()
        headers = {"Accept": "application/json", "Authorization": f"Bearer {token}"}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = f"application/{kind}"
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=_EACH_WAIT, context=trust)
        try:
            with closing(connection):
                connection.request(method, path, data, headers)
                response = connection.getresponse()
                answer = Answer(response.status, _document(response.read(_MOST + 1)))
        except ssl.SSLCertVerificationError as error:
            raise PermanentError(
                f"asking the API server: its certificate is refused: {error.verify_message}"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            text = str(error) if isinstance(error, OSError) else type(error).__name__
            raise TransientError(f"asking the API server {self.host}:{self.port}: {text}") from error
        if answer.status in _AGAIN:
            raise TransientError(f"asking the API server: {answer.message}")
        return answer

    def _token(self) -> str:
        try:
            return (self.account / "token").read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            raise PermanentError(
                f"reading the pod's token: {self.account / 'token'} cannot be read",
                hint="set automountServiceAccountToken: true for the console's pod",
            ) from None

    def _trust(self) -> ssl.SSLContext:
        file = self.account / "ca.crt"
        try:
            context = ssl.create_default_context(cafile=os.fspath(file))
        except (OSError, ssl.SSLError) as error:
            raise PermanentError(f"reading the cluster's authority: {file} cannot be used") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def _document(data: bytes) -> Mapping[str, Any]:
    if len(data) > _MOST:
        raise PermanentError("asking the API server: the answer is too long")
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
