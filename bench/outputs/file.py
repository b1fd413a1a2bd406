"""Prints messages a second of files in a directory beside a bare loop that writes and flushes the same lines: `python -m bench.outputs.file`."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from bench.outputs.compared import compared
from common.config.sizes import Size
from common.message import Message, Property
from router.outputs.file.output import FileOutput
from router.outputs.file.settings import FileSettings
from router.outputs.port import Stream

_PAGE = 500
"""Messages of half a kilobyte in a chunk of the router, which has 256 KB."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--format", choices=["jsonl", "parquet"], default="jsonl")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        output = FileOutput(
            FileSettings(
                type="file",
                root=root,
                format=given.format,
                roll_size=Size(64 << 20),
                roll_time=timedelta(hours=1),
            )
        )
        sender = output.sender(Stream("bench", None, "bench"))
        bare = os.open(Path(root) / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def in_pages(messages: Sequence[Message]) -> list[Sequence[Message]]:
            return [messages[at : at + _PAGE] for at in range(0, len(messages), _PAGE)]

        def dstream(messages: Sequence[Message]) -> None:
            for page in in_pages(messages):
                sender.send(page)

        def bare_loop(messages: Sequence[Message]) -> None:
            for page in in_pages(messages):
                os.write(bare, b"".join(message.body + b"\n" for message in page))
                os.fdatasync(bare)

        ways = {"bare": bare_loop, "dstream": dstream}
        compared(
            f"file {given.format}", ways, lambda way, number: fresh(given.messages), rounds=given.rounds, bare="bare"
        )
        sender.close()
        output.close()
        os.close(bare)


def fresh(count: int) -> list[Message]:
    body = b'{"data":{"ID":1,"FirstName":"Diana","Text":"%s"},"metadata":{}}' % (b"x" * 440)
    properties = {Property.TABLE: "Persons", Property.LSN: "0000003600000b200003"}
    return [Message(body, str(number), "s", application_properties=properties) for number in range(count)]


if __name__ == "__main__":
    main()
