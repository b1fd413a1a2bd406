"""A change that the queue refuses for another reason than its size: the table stops and says which and why; what came before it arrives."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from common.bus.ports import MessageRefused, TimeLeft
from common.message import Message
from ingester.shape.mask import mask_of
from ingester.shape.table_shape import TableShape
from ingester.slices import Slice, Trouble
from ingester.task.drain import Drain
from ingester.task.pack import PackingSender
from tests.fakes.ingester import FakeSender
from tests.unit.ingester.test_oversize import BIG, ROWS, bench, ids


@dataclass
class Picky(FakeSender):
    """Refuses the changes with these ids."""

    refuses: frozenset[str] = field(default_factory=frozenset)

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        for at, message in enumerate(messages):
            if message.message_id in self.refuses:
                super().send(messages[:at])
                words = "was refused: No such thing here. Error condition: amqp:not-allowed."
                raise MessageRefused("ingest-queue", message, words, at=at, accepted=range(at), hint="mend it")
        super().send(messages)


def picky(drain: Drain, *refused: int) -> tuple[Drain, Picky]:
    sender = Picky(refuses=frozenset(ids([ROWS[at] for at in refused])))
    return replace(drain, sender=sender), sender


@pytest.fixture(params=["fail", "dead_letter"])
def prepared(request: pytest.FixtureRequest) -> tuple[Drain, Slice]:
    """With either setting of on_oversize: it is about what fits no message, and about nothing else."""
    return bench(stand_ins=request.param == "dead_letter", wide=())


def test_the_table_stops_and_names_key_position_the_queues_words_and_the_remedy(prepared: tuple[Drain, Slice]) -> None:
    drain, _ = picky(prepared[0], ROWS.index(BIG))
    result = drain.run(prepared[1])
    assert result.trouble is Trouble.PERMANENT
    for fact in ("dbo.Persons", '{"ID":2}', BIG.lsn.hex, BIG.seqval.hex(), "No such thing here", "amqp:not-allowed"):
        assert fact in result.message
    assert result.hint == "mend it; then restart the ingester"
    assert result.set_aside == ()


@pytest.mark.parametrize("too_large", [False, True])
def test_an_error_shows_a_key_as_it_is_sent(too_large: bool) -> None:
    """Of a hashed key nothing but the hash."""
    drain, todo = bench(stand_ins=False, wide=(BIG,) if too_large else ())
    if not too_large:
        drain, _ = picky(drain, ROWS.index(BIG))
    hashed = hashlib.sha256(b"sesame2").hexdigest()
    result = drain.run(replace(todo, shape=TableShape(masks=(("ID", mask_of("hash:SHA-256:sesame")),))))
    assert result.trouble is Trouble.PERMANENT
    assert f'{{"ID":"{hashed}"}}' in result.message
    assert '"ID":2' not in result.message


@pytest.mark.parametrize("rows", [1, 4, 6, 13])
def test_what_comes_before_it_is_sent_and_committed_once(prepared: tuple[Drain, Slice], rows: int) -> None:
    drain, sender = picky(prepared[0], 5)
    result = drain.run(replace(prepared[1], rows=rows))
    assert (result.position, result.changes) == (ROWS[4], 5)
    again = drain.run(prepared[1])
    assert (again.position, again.changes, again.trouble) == (ROWS[4], 0, Trouble.PERMANENT)
    assert [message.message_id for message in sender.sent] == ids(ROWS[:5])


def test_a_table_goes_on_at_the_refused_change_once_the_queue_takes_it(prepared: tuple[Drain, Slice]) -> None:
    drain, sender = picky(prepared[0], 0, 5)
    assert drain.run(prepared[1]).position is None
    sender.refuses = frozenset()
    assert drain.run(prepared[1]).trouble is None
    assert [message.message_id for message in sender.sent] == ids(ROWS)


class Refusing(FakeSender):
    """Refuses whatever it is given, packs too."""

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        raise MessageRefused("ingest-queue", messages[0], "was refused", at=0)


def test_in_packs_too_the_change_is_named_and_not_its_pack(prepared: tuple[Drain, Slice]) -> None:
    drain = replace(prepared[0], sender=PackingSender(Refusing(), most=10))
    result = drain.run(prepared[1])
    assert (result.position, result.trouble) == (None, Trouble.PERMANENT)
    assert '{"ID":1}' in result.message
    assert ROWS[0].seqval.hex() in result.message
