"""Answers: whatever the events, the tokens form one chain of DONEs that says where it ends and what failed."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulators.sqlserver.results import (
    Column,
    DatabaseChanged,
    ErrorMessage,
    Event,
    Info,
    ResultSet,
    ReturnStatus,
    ReturnValue,
    RowCount,
    SqlError,
    StatementDone,
    TransactionChanged,
    Value,
)
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.wire.response import Response
from emulators.sqlserver.wire.rpc import Call

INT = SqlType("int")
MORE, ERROR, INXACT, COUNT = 1, 2, 4, 0x10


@dataclass(frozen=True)
class Token:
    name: str
    status: int = 0
    count: int = 0
    number: int = 0


def read(data: bytes) -> list[Token]:
    """Split an answer whose result sets have one int column."""
    found = []
    position = 0
    while position < len(data):
        token = data[position]
        if token in (0xFD, 0xFE, 0xFF):
            name = {0xFD: "DONE", 0xFE: "DONEPROC", 0xFF: "DONEINPROC"}[token]
            _, status, _, count = struct.unpack_from("<BHHQ", data, position)
            found.append(Token(name, status, count))
            position += 13
        elif token in (0xAA, 0xAB, 0xE3):
            length, number = struct.unpack_from("<Hi", data, position + 1)
            name = {0xAA: "ERROR", 0xAB: "INFO", 0xE3: "ENVCHANGE"}[token]
            found.append(Token(name, number=number if token != 0xE3 else data[position + 3]))
            position += 3 + length
        elif token == 0x81:
            found.append(Token("COLMETADATA"))
            position += 3 + 6 + 2 + 1
        elif token == 0xD1:
            found.append(Token("ROW", number=struct.unpack_from("<i", data, position + 2)[0]))
            position += 6
        elif token == 0x79:
            found.append(Token("RETURNSTATUS", number=struct.unpack_from("<i", data, position + 1)[0]))
            position += 5
        else:
            assert token == 0xAC
            found.append(Token("RETURNVALUE", number=data[position + 1]))
            position += 3 + 1 + 1 + 6 + 2 + 5
    return found


def rows(*values: Value) -> ResultSet:
    return ResultSet([Column("", INT)], iter([[v] for v in values]))


def answer(
    events: Sequence[Event], *, rpc: bool = False, failing: SqlError | None = None, inside: bool = False
) -> bytes:
    response = Response("s", lambda: inside, call=Call("p", ()) if rpc else None)
    out = b"".join(chunk for event in events for chunk in response.tokens(event))
    if failing is not None:
        out += response.fail(failing)
    return out + response.finish()


def names(events: Sequence[Event], *, rpc: bool = False) -> list[str]:
    return [token.name for token in read(answer(events, rpc=rpc))]


_EVENTS = st.one_of(
    st.builds(lambda values: ("rows", values), st.lists(st.integers(0, 9), max_size=3)),
    st.builds(RowCount, st.integers(0, 9)),
    st.just(StatementDone()),
    st.just(Info(0, "info")),
    st.just(ErrorMessage(547, "error")),
    st.just(DatabaseChanged("b", "a")),
    st.just(TransactionChanged("begin", 1)),
    st.just(ReturnStatus(0)),
    st.just(ReturnValue("", INT, 1)),
)


@given(st.lists(_EVENTS, max_size=8), st.booleans(), st.booleans(), st.booleans())
def test_every_done_but_the_last_says_that_more_follows(
    drawn: list[Event | tuple[str, list[Value]]], rpc: bool, fails: bool, inside: bool
) -> None:
    events = [rows(*e[1]) if isinstance(e, tuple) else e for e in drawn]
    if not rpc:  # a batch has no OUTPUT parameters
        events = [e for e in events if not isinstance(e, ReturnValue)]
    tokens = read(answer(events, rpc=rpc, failing=SqlError(50000, "end") if fails else None, inside=inside))
    ends = [t for t in tokens if t.name.startswith("DONE")]
    assert tokens[-1] == ends[-1]
    assert all(t.status & MORE for t in ends[:-1])
    assert not ends[-1].status & MORE
    assert all(bool(t.status & INXACT) is inside for t in ends)
    errors = sum(t.name == "ERROR" for t in tokens)
    assert errors == sum(bool(t.status & ERROR) for t in ends)
    if rpc:
        assert ends[-1].name == "DONEPROC"
        assert {t.name for t in ends[:-1]} <= {"DONEINPROC"}
        assert [t.name for t in tokens].count("RETURNSTATUS") == 1
    else:
        assert "DONEINPROC" not in {t.name for t in ends}


def test_a_select_ends_with_its_count() -> None:
    assert read(answer([rows(7, 8)])) == [
        Token("COLMETADATA"),
        Token("ROW", number=7),
        Token("ROW", number=8),
        Token("DONE", COUNT, 2),
    ]


def test_an_empty_batch_has_one_done() -> None:
    assert read(answer([])) == [Token("DONE")]


def test_an_rpc_ends_with_status_values_and_doneproc_in_this_order() -> None:
    events: list[Event] = [rows(1), ReturnValue("", INT, 5), ReturnStatus(3)]
    assert names(events, rpc=True) == ["COLMETADATA", "ROW", "DONEINPROC", "RETURNSTATUS", "RETURNVALUE", "DONEPROC"]


def test_an_error_of_one_statement_closes_it_before_the_next_speaks() -> None:
    tokens = read(answer([ErrorMessage(547, "no"), Info(3621, "terminated"), rows(1)]))
    assert [t.name for t in tokens] == ["ERROR", "INFO", "DONE", "COLMETADATA", "ROW", "DONE"]
    assert tokens[2].status == MORE | ERROR
    assert tokens[-1].status == COUNT


def test_a_statement_done_after_an_error_message_ends_the_failed_statement() -> None:
    assert read(answer([ErrorMessage(547, "no"), StatementDone()])) == [
        Token("ERROR", number=547),
        Token("DONE", ERROR),
    ]


def test_an_error_in_the_middle_of_rows_of_an_rpc_ends_the_statement_and_the_call() -> None:
    def failing() -> Iterator[list[Value]]:
        yield [1]
        raise SqlError(8134, "divide")

    response = Response("s", lambda: False, call=Call("p", ()))
    out = b""
    with pytest.raises(SqlError) as raised:  # noqa: PT012 - the rows before the error are part of the promise
        for chunk in response.tokens(ResultSet([Column("", INT)], failing())):
            out += chunk
    tokens = read(out + response.fail(raised.value) + response.finish())
    assert [t.name for t in tokens] == ["COLMETADATA", "ROW", "ERROR", "DONEINPROC", "RETURNSTATUS", "DONEPROC"]
    assert tokens[3].status == MORE | ERROR


def test_a_cancelled_answer_keeps_the_end_it_held_back() -> None:
    response = Response("s", lambda: False)
    out = b"".join(response.tokens(RowCount(1))) + response.cut_short()
    assert read(out) == [Token("DONE", COUNT | MORE, 1), Token("DONE", ERROR)]


@pytest.mark.parametrize(("kind", "number"), [("begin", 8), ("commit", 9), ("rollback", 10)])
def test_a_transaction_change_is_an_environment_change_before_the_done(kind: str, number: int) -> None:
    tokens = read(answer([TransactionChanged(kind, 5), StatementDone()]))
    assert tokens == [Token("ENVCHANGE", number=number), Token("DONE")]


def test_a_long_message_is_cut_to_what_a_token_can_hold() -> None:
    tokens = read(answer([Info(0, "x" * 100_000)]))
    assert [t.name for t in tokens] == ["INFO", "DONE"]


def test_many_rows_come_in_chunks_and_all_of_them() -> None:
    response = Response("s", lambda: False)
    chunks = list(response.tokens(rows(*range(5000))))
    assert len(chunks) > 5
    assert [t.number for t in read(b"".join(chunks)) if t.name == "ROW"] == list(range(5000))
