"""What a move of an offset means and needs."""

from __future__ import annotations

import pytest

from common.errors import PermanentError
from common.names import TableName
from ingester.operating.moving import Bounds, Held, MovePlan, Span, spans, within
from ingester.operating.offset_desk import Count
from ingester.sqlserver.position import LogPosition, Lsn

TABLE = TableName("dbo", "Persons")


def at(number: int) -> LogPosition:
    return LogPosition.before(Lsn(number.to_bytes(10, "big")))


BOUNDS = Bounds(at(10), at(20))


@pytest.mark.parametrize(
    ("begun", "to", "expected"),
    [
        (15, 12, (Span(at(12), at(15)), None, False)),
        (15, 18, (None, Span(at(15), at(18)), False)),
        (15, 15, (None, None, False)),
        (None, 10, (None, None, False)),
        (None, 20, (None, Span(at(10), at(20)), False)),
        (5, 10, (None, None, True)),
        (5, 12, (None, Span(at(10), at(12)), True)),
        (30, 12, (Span(at(12), at(20)), None, False)),
    ],
)
def test_what_is_sent_again_or_never(
    begun: int | None, to: int, expected: tuple[Span | None, Span | None, bool]
) -> None:
    assert spans(None if begun is None else at(begun), at(to), BOUNDS) == expected


@pytest.mark.parametrize(("to", "named"), [(9, at(10)), (21, at(20))])
def test_beyond_the_bounds_it_is_refused_and_the_border_is_named(to: int, named: LogPosition) -> None:
    with pytest.raises(PermanentError, match=str(named)):
        within(TABLE, at(to), BOUNDS)


@pytest.mark.parametrize("to", [10, 20])
def test_the_bounds_themselves_are_allowed(to: int) -> None:
    assert within(TABLE, at(to), BOUNDS) == at(to)


def plan(**changed: object) -> MovePlan:
    return MovePlan(**{"table": TABLE, "begun": at(5), "to": at(6), "low": at(1), "held": Held.FREE, **changed})  # type: ignore[arg-type]


def test_to_send_again_needs_no_confirmation() -> None:
    assert plan(again=Span(at(2), at(5), Count(3))).needs == ()


@pytest.mark.parametrize(
    ("changed", "option", "said"),
    [
        ({"skipped": Span(at(5), at(6), Count(3))}, "--skip", "3 changes would never be sent"),
        ({"skipped": Span(at(5), at(6), Count(1))}, "--skip", "1 change would never be sent"),
        ({"skipped": Span(at(5), at(6), Count(100_000, capped=True))}, "--skip", ">= 100,000 changes"),
        ({"skipped": Span(at(5), at(6), None, "no right")}, "--skip", "an unknown number of changes (no right)"),
        ({"lost": "gone"}, "--skip", "gone"),
        ({"held": Held.HELD, "owner": "spark-1:7"}, "--take", "spark-1:7 reads this table now"),
        ({"held": Held.UNKNOWN, "why_unknown": "no answer"}, "--take", "no answer"),
    ],
)
def test_what_loses_changes_or_stops_an_owner_needs_one(changed: dict[str, object], option: str, said: str) -> None:
    [(needed, why)] = plan(**changed).needs
    assert needed == option
    assert said in why
