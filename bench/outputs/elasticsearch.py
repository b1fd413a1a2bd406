"""How fast the output `elasticsearch` writes, beside a bare loop of httpx over `_bulk`; against a real OpenSearch node (`make opensearch`).

    .venv/bin/python -m bench.outputs.elasticsearch [--messages 10000] [--rounds 5]

Inserts as the ingester writes them, in chunks of 500. The bare loop sends bodies that were made before, with external versions, and looks at
nothing but `errors`. Both end with the last answer. The last line is JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import httpx

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
    sender, numbers, bodies = output.sender(streams["dstream"]), itertools.count(), dict[str, list[bytes]]()

    def fresh(way: str, number: int) -> Sequence[Message]:
        made = [change(streams[way], next(numbers), "one", size=400) for _ in range(count)]
        if way == "httpx":
            bodies["next"] = [_body(chunk) for chunk in _chunks(made)]
        return made

    def ours(messages: Sequence[Message]) -> None:
        for chunk in _chunks(messages):
            sender.send(chunk)

    def bare(messages: Sequence[Message]) -> None:
        path = f"{node.url}/{streams['httpx'].destination}/_bulk"
        for body in bodies["next"]:
            answer = client.post(path, content=body, headers={"content-type": "application/x-ndjson"})
            assert not answer.json()["errors"]

    with httpx.Client(timeout=60, trust_env=False) as client:
        compared("elasticsearch", {"dstream": ours, "httpx": bare}, fresh, rounds=rounds, bare="httpx")
    output.close()


def _chunks(messages: Sequence[Message]) -> list[Sequence[Message]]:
    return [messages[at : at + _CHUNK] for at in range(0, len(messages), _CHUNK)]


def _body(messages: Sequence[Message]) -> bytes:
    lines = list[str]()
    for message in messages:
        row = json.loads(message.body)["data"]
        head = {"_id": str(row["ID"]), "version": row["ID"] + 1, "version_type": "external"}
        lines += [json.dumps({"index": head}), json.dumps(row)]
    return ("\n".join(lines) + "\n").encode()


if __name__ == "__main__":
    main()
