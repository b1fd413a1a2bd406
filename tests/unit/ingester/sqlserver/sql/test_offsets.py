"""A batch for many offsets is one of a few texts, so that SQL Server finds its plan again."""

from __future__ import annotations

from ingester.sqlserver.literals import rendered
from ingester.sqlserver.sql.offsets import A_STATEMENT, claims, moves

PLACE = (bytes(9) + b"\x01", 1, bytes(10), 2)


def text_of(sent: str) -> str:
    """What is handed to sp_executesql, with the types."""
    return sent[: sent.index("', N'@p1 ")] + sent[sent.index("', N'@p1 ") :].partition("', ")[2].partition("', ")[0]


def test_claims_of_any_number_of_tables_are_a_few_texts() -> None:
    rows = [(f"dbo.T{n}", None if n % 3 else f"T{n}", 5, None if n % 2 else "1 a") for n in range(A_STATEMENT)]
    texts = {text_of(rendered(*claims(rows[:count], to))) for count in range(1, A_STATEMENT + 1) for to in (None, "q")}
    assert len(texts) == 5


def test_moves_of_any_number_of_offsets_are_a_few_texts_whether_they_are_the_first_or_not() -> None:
    rows = [(f"dbo.T{n}", 5, PLACE, PLACE if n % 3 else None) for n in range(A_STATEMENT)]
    texts = {text_of(rendered(*moves(rows[first:count]))) for count in range(4, A_STATEMENT + 1) for first in (0, 1, 2)}
    assert len(texts) == 4
