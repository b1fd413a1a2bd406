"""Who seals the open file of a folder, when an edit of the configuration makes a second output beside the first."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from common.config.sizes import Size
from common.message import Message
from router.outputs.file.names import parsed
from router.outputs.file.output import FileOutput
from router.outputs.file.sender import FileSender
from router.outputs.file.settings import FileSettings
from router.outputs.port import Stream

STREAM = Stream("persons", None, "persons")


def opened(root: Path, **settings: Any) -> tuple[FileOutput, FileSender]:
    found = FileSettings.model_validate(
        {"type": "file", "root": str(root), "roll_time": timedelta(hours=1), "fsync": False, **settings}
    )
    output = FileOutput(found)
    sender = output.sender(STREAM)
    sender.open()
    return output, sender


def add(sender: FileSender, *numbers: int) -> None:
    sender.send([Message(b'{"n":%d}' % number, str(number)) for number in numbers])


def finished(root: Path) -> list[bytes]:
    """What each finished file holds, in their order."""
    files = sorted(each for each in root.rglob("*") if (name := parsed(each.name)) is not None and name[1] is None)
    return [each.read_bytes() for each in files]


def test_a_successor_goes_on_with_the_open_file_and_finishes_it_at_its_own_end(tmp_path: Path) -> None:
    first, old = opened(tmp_path)
    add(old, 1, 2)
    second, new = opened(tmp_path, roll_size=Size(1 << 20))
    old.close()
    first.close()
    assert finished(tmp_path) == []
    add(new, 3)
    new.close()
    second.close()
    assert finished(tmp_path) == [b'{"n":1}\n{"n":2}\n{"n":3}\n']


def test_a_successor_finishes_what_it_never_added_to(tmp_path: Path) -> None:
    first, old = opened(tmp_path)
    elsewhere = first.sender(Stream("orders", None, "orders"))
    elsewhere.send([Message(b'{"n":7}', "7")])
    second, new = opened(tmp_path)
    for each in (old, elsewhere, first):
        each.close()
    assert finished(tmp_path) == []
    new.close()
    second.close()
    assert finished(tmp_path) == [b'{"n":7}\n']


def test_a_candidate_that_is_given_up_seals_no_file_of_the_one_in_force(tmp_path: Path) -> None:
    first, old = opened(tmp_path)
    add(old, 1)
    second, new = opened(tmp_path)
    new.close()
    second.close()
    add(old, 2)
    old.close()
    first.close()
    assert finished(tmp_path) == [b'{"n":1}\n{"n":2}\n']


def test_a_successor_elsewhere_or_of_another_format_leaves_the_file_to_its_own_output(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    first, old = opened(one)
    add(old, 1)
    second, new = opened(other)
    third, packed = opened(one, compression="gzip")
    old.close()
    first.close()
    assert finished(one) == [b'{"n":1}\n']
    for each in (new, second, packed, third):
        each.close()
