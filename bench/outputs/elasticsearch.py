"""How fast the output `elasticsearch` writes, beside a bare loop of httpx over `_bulk`; against a real OpenSearch node (`make opensearch`).

    .venv/bin/python -m bench.outputs.elasticsearch [--messages 10000] [--rounds 5]

Inserts as the ingester writes them, in chunks of 500. The bare loop reads the messages with orjson and sends the same documents, with positions and
external versions; of the answers it looks at nothing but `errors`. Both end with the last answer. The last line is JSON.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import httpx
import orjson

from bench.outputs.compared import compared
from common.message import Message
from common.names import TableName
from router.outputs.port import Stream
from tests.outputs.contract.world import ORIGIN, change
from tests.outputs.elasticsearch.node import OpenSearch
from tests.outputs.elasticsearch.world import search_output

_CHUNK = 500
_TABLE = TableName("dbo", "Persons")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        node = OpenSearch(Path(directory))
        node.start()
        try:
            _compare(node, arguments.messages, arguments.rounds)
        finally:
            node.stop()


def _compare(node: OpenSearch, count: int, rounds: int) -> None:
    streams = {way: Stream(f"{ORIGIN.topic(_TABLE)}.{way}", _TABLE, f"shop.dbo.{way}") for way in ("dstream", "httpx")}
    output = search_output(port=node.port, keys={"Persons": ("ID",)})
    output.provision(list(streams.values()), how="create")
    sender, numbers = output.sender(streams["dstream"]), itertools.count()

    def fresh(way: str, number: int) -> Sequence[Message]:
        return [change(streams[way], next(numbers), "one", size=400) for _ in range(count)]

    def ours(messages: Sequence[Message]) -> None:
        for chunk in _chunks(messages):
            sender.send(chunk)

    def bare(messages: Sequence[Message]) -> None:
        path = f"{node.url}/{streams['httpx'].destination}/_bulk?filter_path=errors"
        for chunk in _chunks(messages):
            answer = client.post(path, content=_body(chunk), headers={"content-type": "application/x-ndjson"})
            assert not answer.json()["errors"]

    with httpx.Client(timeout=60, trust_env=False) as client:
        compared("elasticsearch", {"dstream": ours, "httpx": bare}, fresh, rounds=rounds, bare="httpx")
    output.close()


def _chunks(messages: Sequence[Message]) -> list[Sequence[Message]]:
    return [messages[at : at + _CHUNK] for at in range(0, len(messages), _CHUNK)]


def _body(messages: Sequence[Message]) -> bytes:
    lines = list[bytes]()
    for message in messages:
        body = orjson.loads(message.body)
        row, of = body["data"], body["metadata"]
        lsn = of["LSN"]
        position = f"{lsn}-{of['CommandID']:08x}-{of['SeqVal']}-{of['OperationID']:x}"
        head = {"_id": str(row["ID"]), "version": int(lsn[:16], 16) & ~63, "version_type": "external"}
        lines += [orjson.dumps({"index": head}), orjson.dumps({"_dstream": {"position": position}, **row})]
    return b"\n".join(lines) + b"\n"


if __name__ == "__main__":
    main()
