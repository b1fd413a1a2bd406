"""What App Service and Container Apps give a managed identity: an endpoint on this machine that hands out tokens, asked by azure-identity itself.

https://learn.microsoft.com/azure/app-service/overview-managed-identity (REST endpoint reference)
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

HEADER = "known to the process alone"


class TokenEndpoint:
    """`token`: what everybody gets, None for a refusal. `asked`: the queries so far. `mute`: nobody is answered before `close`."""

    def __init__(self) -> None:
        self.token: str | None = None
        self.mute = False
        self.asked: list[dict[str, str]] = []
        self._over = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer._answer(self)

            def log_message(self, format: str, *args: object) -> None:
                """Into no log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "IDENTITY_ENDPOINT": f"http://127.0.0.1:{self._server.server_port}/msi/token",
            "IDENTITY_HEADER": HEADER,
        }

    def close(self) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
        self.asked.append(asked)
        if self.mute:
            self._over.wait()
        known = request.headers.get("X-IDENTITY-HEADER") == HEADER
        given = {
            "access_token": self.token,
            "expires_on": str(int(time.time()) + 3600),
            "resource": asked.get("resource"),
            "token_type": "Bearer",
        }
        refusal = {"statusCode": 400, "message": "No User Assigned or Delegated Managed Identity found"}
        body = json.dumps(given if known and self.token else refusal).encode()
        request.send_response(200 if known and self.token else 400)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
