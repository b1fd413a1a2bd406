from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.bus.ports import MessageUnwritable, OutOfTime
from common.config.bind import read
from common.message import Message
from router.outputs.console.output import ConsoleOutput
from router.outputs.console.pipe import Pipe
from router.outputs.console.settings import ConsoleSettings
from router.outputs.port import Stream
from router.settings import from_document

STREAM = Stream("server.database.persons.events", None, "stdout")


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def output(writing: int, **settings: str) -> ConsoleOutput:
    made = ConsoleSettings.model_validate({"type": "console", **settings})
    return ConsoleOutput(made, pipe=Pipe(writing, "standard output"))


def test_a_message_is_a_line(ends: tuple[int, int]) -> None:
    output(ends[1]).sender(STREAM).send([Message(b'{"a":1}', "1"), Message(b"", "2")])

    assert os.read(ends[0], 100) == b'{"a":1}\nnull\n'


def test_what_is_no_line_is_refused_behind_the_lines_before_it(ends: tuple[int, int]) -> None:
    messages = [Message(b"{}", "1"), Message(b"a secret text", "2"), Message(b"[]", "3")]

    with pytest.raises(MessageUnwritable) as refused:
        output(ends[1]).sender(STREAM).send(messages)

    assert (refused.value.at, refused.value.accepted, refused.value.by_entity) == (1, frozenset({0}), False)
    assert "secret" not in str(refused.value)
    assert os.read(ends[0], 100) == b"{}\n"


def test_without_time_nothing_is_written(ends: tuple[int, int]) -> None:
    with pytest.raises(OutOfTime):
        output(ends[1]).sender(STREAM).send([Message(b"{}", "1")], left=lambda: 0.0)

    os.write(ends[1], b"nothing")
    assert os.read(ends[0], 100) == b"nothing"


def test_attributes_that_are_properties_need_the_whole_message() -> None:
    with pytest.raises(ValueError, match='needs line = "message"'):
        ConsoleSettings(type="console", envelope="cloudevents", cloudevents_mode="binary")

    assert ConsoleSettings(type="console", envelope="cloudevents", cloudevents_mode="binary", line="message")


ROUTER = """ingester {
  db_connection_string = "{{ env "DB" }}"
  server_name = "SQL01"
  database = "Shop"
  queue {
    name = "ingest-queue"
    namespace = "x.servicebus.windows.net"
  }
  tables = ["Persons"]
}
router {
  source { namespace = "x.servicebus.windows.net" }
  output { namespace = "x.servicebus.windows.net" }
  output "look" { type = "console" }
  workers = 4
}
"""


def test_one_process_routes_and_a_setting_that_asks_for_more_is_named(tmp_path: Path) -> None:
    path = tmp_path / "f.hcl"
    path.write_text(ROUTER, encoding="utf-8")

    bound = from_document(read(path, {}))

    settings = bound.value
    assert settings is not None, bound.problems
    assert settings.workers == 1
    (remark,) = [each for each in settings.remarks if each.setting == "router.workers"]
    assert (remark.setting, remark.line) == ("router.workers", 15)
    assert "output.look of type console" in remark.hint
