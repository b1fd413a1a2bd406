"""What a start logs of indexes that cannot be reached: a line for each that is late, none when all are, since whoever asked reports that once."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from common.errors import TransientError
from common.names import TableName
from router.outputs.elasticsearch.client import Client, Response
from router.outputs.elasticsearch.provision import Provisioner
from router.outputs.elasticsearch.settings import ElasticsearchSettings
from router.outputs.port import Stream

SETTINGS = ElasticsearchSettings(type="opensearch", urls=("http://localhost",))
STREAMS = [Stream(f"{name}.events", TableName("dbo", name), name) for name in ("persons", "orders")]


class Nodes(Client):
    """Answers for some indexes only."""

    def __init__(self, *answering: str) -> None:
        super().__init__(SETTINGS)
        self._answering = answering

    def request(self, method: str, path: str, *arguments: Any, **more: Any) -> Response:
        if path.strip("/") in self._answering:
            return Response(200, b'{"persons-000001": {"aliases": {"persons": {}}, "mappings": {}, "settings": {}}}')
        raise TransientError("the connection failed")


def test_what_holds_for_all_indexes_is_raised_and_not_logged_again_and_again() -> None:
    with capture_logs() as logs, pytest.raises(TransientError, match="the connection failed"):
        Provisioner(Nodes(), SETTINGS).provision(STREAMS, how="create")
    assert logs == []


def test_an_index_that_is_late_while_another_one_is_there_has_a_line() -> None:
    with capture_logs() as logs:
        assert Provisioner(Nodes("persons"), SETTINGS).provision(STREAMS, how="create") == ["orders.events"]
    assert [(each["event"], each["index"]) for each in logs] == [("index not provided yet", "orders")]
