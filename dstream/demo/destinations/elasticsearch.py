"""The demo's changes as documents of Elasticsearch or OpenSearch."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from common.errors import ConfigurationError, PermanentError
from common.names import TableName
from dstream.demo.destinations.program import run_name
from dstream.demo.reading import Row, RowReader
from dstream.demo.schema import KEYS

_INSTALL = (
    "the demo does not start it. For example: docker run -p 9200:9200 -e discovery.type=single-node -e DISABLE_INSTALL_DEMO_CONFIG=true "
    "-e DISABLE_SECURITY_PLUGIN=true opensearchproject/opensearch:2, and then --server http://localhost:9200"
)
_USER, _PASSWORD = "DSTREAM_DEMO_USER", "DSTREAM_DEMO_PASSWORD"
_PAGE = 1000
_PATIENCE = 30.0
_NOT_THERE = 404


class ElasticsearchDestination:
    """`server`: its URL; the demo starts none."""

    ingester = ""

    def __init__(self, server: str | None) -> None:
        if server is None:
            raise ConfigurationError(["--output elasticsearch needs --server URL"], hint=_INSTALL)
        try:
            given = urlsplit(server)
            port = "" if given.port is None else f":{given.port}"
        except ValueError:
            given, port = urlsplit(""), ""
        if given.scheme not in ("http", "https") or not given.hostname:
            raise ConfigurationError(["--server must be http://HOST:PORT or https://USER:PASSWORD@HOST:PORT"])
        self._url = f"{given.scheme}://{given.hostname}{port}{given.path.rstrip('/')}"
        self.variables: Mapping[str, str] = (
            {_USER: unquote(given.username), _PASSWORD: unquote(given.password or "")} if given.username else {}
        )
        self._run = run_name()
        self.where = f"Elasticsearch at {self._url}"

    def start(self) -> None:
        try:
            self.reader().call("/")
        except (OSError, HTTPException, ValueError) as error:  # HTTPError, an OSError, says which status
            raise PermanentError(f"reaching {self.where}: {error}", hint="check --server, and its user") from error

    @property
    def block(self) -> str:
        keys = ", ".join(f'"{table.key}" = {json.dumps(columns)}' for table, columns in KEYS.items())
        users = "".join(
            f'{setting} = "{{{{ env("{name}") }}}}"\n'
            for setting, name in (("username", _USER), ("password", _PASSWORD))
            if name in self.variables
        )
        index = f"{self._run}.{{schema}}.{{table}}"
        return f'type = "elasticsearch"\nurls = ["{self._url}"]\nindex = "{index}"\nkeys = {{ {keys} }}\n{users}'

    def reader(self) -> ElasticsearchReader:
        user = ":".join(self.variables.values())
        return ElasticsearchReader(
            self._url, f"Basic {base64.b64encode(user.encode()).decode()}" if user else None, self._run
        )

    def died(self) -> bool:
        return False

    def stop(self) -> None:
        """It runs on."""


class ElasticsearchReader(RowReader):
    """Reads whole indexes: the demo's are small."""

    def __init__(self, url: str, authorization: str | None, run: str) -> None:
        super().__init__(KEYS, "Version")
        self._url, self._run = url, run
        self._headers = {"Content-Type": "application/json"}
        if authorization is not None:
            self._headers["Authorization"] = authorization
        self._opener = build_opener(ProxyHandler({}))

    def rows(self, table: TableName) -> Sequence[Row]:
        index = f"/{self._run}.{table.schema}.{table.table}".lower()
        try:
            return self._all(index)
        except HTTPError as error:
            if error.code == _NOT_THERE:  # the first change has not come yet
                return []
            raise PermanentError(f"reading what arrives: {error}") from error
        except (OSError, HTTPException, ValueError) as error:
            raise PermanentError(f"reading what arrives: {error}") from error

    def _all(self, index: str) -> Sequence[Row]:
        self.call(f"{index}/_refresh", {})
        answer, rows = self.call(f"{index}/_search?scroll=1m", {"size": _PAGE}), list[Row]()
        while hits := answer["hits"]["hits"]:
            rows += (hit["_source"] for hit in hits)
            answer = self.call("/_search/scroll", {"scroll": "1m", "scroll_id": answer["_scroll_id"]})
        self.call("/_search/scroll", {"scroll_id": answer["_scroll_id"]}, "DELETE")
        return rows

    def call(self, path: str, body: object = None, method: str | None = None) -> Any:
        """Raises OSError (HTTPError for a status that is an error), HTTPException, ValueError."""
        content = None if body is None else json.dumps(body).encode()
        request = Request(self._url + path, content, self._headers, method=method)
        with self._opener.open(request, timeout=_PATIENCE) as answer:
            return json.load(answer)

    def start(self) -> None:
        """Each question has a connection of its own."""

    def stop(self) -> None:
        """Nothing is open."""
