"""The demo's changes as HTTP requests to a receiver of its own."""

from __future__ import annotations

from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

from common.errors import ConfigurationError
from dstream.demo.reading import MessageReader
from dstream.demo.schema import TABLES

_OPERATION = "X-DStream-Operation"


class WebhookDestination:
    """The receiver is the reader; a server that runs elsewhere could not be read."""

    ingester = ""
    variables: Mapping[str, str] = MappingProxyType({})

    def __init__(self, server: str | None) -> None:
        if server is not None:
            raise ConfigurationError(["--server has no meaning with --output webhook: the demo is the receiver"])
        self._reader = WebhookReader()
        self.where = f"http://127.0.0.1:{self._reader.port}"

    def start(self) -> None:
        """The reader is the server."""

    @property
    def block(self) -> str:
        return f'type = "webhook"\nurl = "{self.where}/{{schema}}.{{table}}"\n'

    def reader(self) -> WebhookReader:
        return self._reader

    def died(self) -> bool:
        return False

    def stop(self) -> None:
        """The reader stops it."""


class WebhookReader(MessageReader):
    """A thread for each connection of the router."""

    def __init__(self) -> None:
        super().__init__(TABLES)
        tables = {f"/{table.schema}.{table.table}": table for table in TABLES}
        keep = self.keep

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                keep(tables[self.path], body, self.headers["Idempotency-Key"], self.headers.get(_OPERATION))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                """The demo prints what arrived."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._threads = [self.thread(self._server.serve_forever, "receiver")]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        super().stop()
