"""A random workload under kills, copies and zombies: the index equals the table, document by document."""

from __future__ import annotations

import json
import multiprocessing
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import Any, Literal

import pytest

from common.errors import TransientError
from common.message import Message
from common.names import TableName
from router.outputs.elasticsearch.bulk import Place
from router.outputs.elasticsearch.client import Client
from router.outputs.elasticsearch.operations import rows_chunk
from router.outputs.port import Stream
from router.outputs.rows.keys import Keys
from tests.outputs.contract.delivery import deliver
from tests.outputs.contract.world import ORIGIN
from tests.outputs.elasticsearch.node import OpenSearch
from tests.outputs.elasticsearch.workload import KEY, Workload, rows_of
from tests.outputs.elasticsearch.world import search_output, search_settings

TABLE = TableName("dbo", "Lines")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearch]:
    node = OpenSearch(tmp_path_factory.mktemp("opensearch"))
    node.start()
    yield node
    node.stop()


def made(node: OpenSearch, deletes: str, name: str) -> Stream:
    """The place of a run, which is created."""
    stream = Stream(ORIGIN.topic(TABLE), TABLE, f"shop.dbo.lines.{name}")
    with closing(search_output(**_arguments(node.port, deletes))) as output:
        assert list(output.provision([stream], how="create")) == []
    return stream


def _arguments(port: int, deletes: str) -> dict[str, Any]:
    return {"port": port, "keys": {"Lines": KEY}, "deletes": deletes}


def _send_in_a_process(port: int, deletes: str, stream: Stream, pages: Sequence[Sequence[Message]]) -> None:
    sender = search_output(**_arguments(port, deletes)).sender(stream)
    for page in pages:
        with suppress(TransientError):
            sender.send(page)


def _late(port: int, stream: Stream, deletes: Literal["remove", "mark"], pages: Sequence[Sequence[Message]]) -> None:
    """Requests that were on their way when their sender died: nobody looks at the answers."""
    settings = search_settings(**_arguments(port, deletes))
    client = Client(settings)
    for page in pages:
        operations = rows_chunk(page, Keys(settings.keys), deletes).operations.values()
        Place(client, stream.destination).write([each.lines() for each in operations], time.monotonic() + 60)
    client.close()


@pytest.mark.parametrize("deletes", ["remove", "mark"])
@pytest.mark.parametrize(
    "rounds", [4, pytest.param(150, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])], ids=["short", "long"]
)
def test_the_index_equals_the_table(node: OpenSearch, deletes: Literal["remove", "mark"], rounds: int) -> None:
    """Each round: a router that is killed in mid-send, another one that goes on from what was settled last, and one of the killed router's
    requests that comes late, in the middle of it."""
    work, stream = Workload(rounds), made(node, deletes, f"{deletes}-{rounds}")
    with closing(search_output(**_arguments(node.port, deletes))) as output:
        for number in range(rounds):
            messages = [message for _ in range(40) for message in work.transaction()]
            pages = [messages[at : at + 25] for at in range(0, len(messages), 25)]
            killed = multiprocessing.get_context("fork").Process(
                target=_send_in_a_process, args=(node.port, deletes, stream, pages), daemon=True
            )
            killed.start()
            killed.join(work.random.uniform(0.05, 0.6))
            killed.kill()
            killed.join()
            late = threading.Thread(
                target=_late, args=(node.port, stream, deletes, work.random.sample(pages, 5)), name="late"
            )
            late.start()
            done = deliver(output.sender(stream), messages, chunk=work.random.choice([3, 9, 40, 400]))
            late.join()
            assert not done.refused, f"round {number}"
            assert table_of(node, stream) == rows_of(work), f"round {number}"


@pytest.mark.parametrize("deletes", ["remove", "mark"])
def test_shards_that_learn_of_new_fields_at_once_refuse_nothing(
    node: OpenSearch, deletes: Literal["remove", "mark"]
) -> None:
    """Each request goes to all shards at once, and the first rows with a column have values of several types. An index has no fields only once,
    so there are several."""
    body = {"index_patterns": ["shop.dbo.lines.shards-*"], "template": {"settings": {"number_of_shards": 3}}}
    node.call("PUT", "/_index_template/shards", body)
    with closing(search_output(**_arguments(node.port, deletes))) as output:
        for number in range(3):
            work, stream = Workload(number), made(node, deletes, f"shards-{number}-{deletes}")
            messages = [message for _ in range(60) for message in work.transaction()]
            done = deliver(output.sender(stream), messages, chunk=400)
            assert not done.refused, f"index {number}"
            assert table_of(node, stream) == rows_of(work), f"index {number}"


def table_of(node: OpenSearch, stream: Stream) -> list[str]:
    """Through the alias, as a search sees it."""
    rows = [each["_source"] for each in node.documents(stream.destination)]
    for row in rows:
        del row["_dstream"]
    return sorted(json.dumps(row, sort_keys=True) for row in rows)
