"""OpenSearch as the contract of outputs needs it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from pydantic import SecretStr

from common.message import Message
from common.names import TableName
from router.outputs.elasticsearch.output import ElasticsearchOutput
from router.outputs.elasticsearch.settings import ElasticsearchSettings
from router.outputs.port import Output, Stream
from tests.outputs.contract.world import GENEROUS, ORIGIN, Arrival, Recipe, World, change
from tests.outputs.elasticsearch.node import OpenSearch

_PASSWORD = "a-password-that-nobody-sees"
_KEYS = {f"Persons{number}": ("ID",) for number in range(1, 400)}


def search_output(**given: Any) -> Output:
    return ElasticsearchOutput(search_settings(**given))


def search_settings(*, port: int, timeout: float = GENEROUS, **more: Any) -> ElasticsearchSettings:
    """As a configuration would have them. The node has no users; the password is sent all the same."""
    given = {"urls": (f"http://127.0.0.1:{port}",), "keys": _KEYS, "timeout": timedelta(seconds=timeout), **more}
    signed = {"username": "router", "password": SecretStr(_PASSWORD)}
    return ElasticsearchSettings.model_validate({"type": "opensearch", **signed, **given})


class SearchWorld(World):
    """Of each row the index has the last state, so the order of arrival is not to be seen in it."""

    keeps_order: ClassVar[bool] = False
    warned_of = ("passwords are sent in plain text", "find the marks of deleted rows")
    secrets = (_PASSWORD, "cm91dGVyOmEtcGFzc3dvcmQtdGhhdC1ub2JvZHktc2Vlcw==")

    def __init__(self) -> None:
        super().__init__()
        directory = self._stack.enter_context(TemporaryDirectory(prefix="opensearch", ignore_cleanup_errors=True))
        self.node = OpenSearch(Path(directory))

    @property
    def port(self) -> int:
        return self.node.port

    def start(self) -> None:
        self.node.start()

    def stop(self) -> None:
        self.node.stop()

    def recipe(self, *, timeout: float = GENEROUS) -> Recipe:
        return Recipe(f"{__name__}:search_output", {"port": self.relay.port, "timeout": timeout})

    def without_right(self, stream: Stream) -> Recipe:
        """The node has no security plugin: what that plugin answers stands in for it."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Forbidding)
        threading.Thread(target=server.serve_forever, name="forbidding", daemon=True).start()
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)
        return Recipe(f"{__name__}:search_output", {"port": server.server_port})

    def place(self) -> Stream:
        stream = self.nowhere()
        mappings = {
            "properties": {"Total": {"type": "integer"}, "_dstream": {"properties": {"position": {"type": "keyword"}}}}
        }
        body = {
            "aliases": {stream.destination: {"is_write_index": True}},
            "settings": {"index": {"gc_deletes": "1h", "number_of_replicas": 0}},
            "mappings": mappings,
        }
        self.node.call("PUT", f"/{stream.destination}-000001", body)
        return stream

    def destination(self, table: TableName) -> str:
        settings = ElasticsearchSettings(type="opensearch", urls=("http://localhost",))
        return settings.place(ORIGIN, ORIGIN.topic(table), table)

    def arrived(self, stream: Stream) -> Sequence[Arrival]:
        assert stream.table is not None
        found = self.node.documents(stream.destination)
        rows = [each["_source"] for each in found]
        return [Arrival(_event(stream.table, row), None, None) for row in rows]

    def refusable(self, stream: Stream, number: int, session: str | None) -> Message:
        message = change(stream, number, session)
        body = json.loads(message.body)
        body["data"]["Total"] = "not a number"
        return replace(message, body=json.dumps(body).encode())

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Its circuit breaker for requests in flight takes none."""
        self._breaker("1b")
        try:
            yield
        finally:
            self._breaker(None)

    def _breaker(self, limit: str | None) -> None:
        self.node.call("PUT", "/_cluster/settings", {"transient": {"network.breaker.inflight_requests.limit": limit}})


def _event(table: TableName, row: Mapping[str, Any]) -> str:
    lsn, command, seqval, operation = row["_dstream"]["position"].split("-")
    return f"shop.{table.schema}.{table.table}:{lsn}-{int(command, 16)}-{seqval}-{operation}"


class _Forbidding(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _forbid(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        reason = "no permissions for [indices:data/write/bulk] and User [name=router, backend_roles=[], requestedTenant=null]"
        cause = {"type": "security_exception", "reason": reason}
        body = json.dumps({"error": {"root_cause": [cause], **cause}, "status": 403}).encode()
        self.send_response(403)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = _forbid  # noqa: N815 - http.server looks for these

    def log_message(self, format: str, *arguments: Any) -> None:
        pass
