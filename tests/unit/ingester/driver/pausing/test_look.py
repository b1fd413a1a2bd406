"""The look at pauses: changes are told once, and a store that is away or closed changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from structlog.testing import capture_logs

from common.errors import PermanentError, TransientError
from common.names import TableName
from ingester.driver.pausing.look import Heard, PauseLook
from ingester.operating.pauses import Pause, PausesHidden

PAUSE, END = Pause("2026-11-23T08:00:00Z", "sa on desk-1"), Pause("2026-11-23T09:00:00Z", "eve on desk-2")


class Store:
    def __init__(self) -> None:
        self.found: Mapping[str, Pause] | None = None
        self.fails: Exception | None = None
        self.asked = 0

    def paused(self) -> Mapping[str, Pause] | None:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        return self.found

    def ended(self, key: str) -> Pause | None:
        self.asked += 1
        return END

    def pause(self, table: TableName, reason: str | None) -> bool:
        raise NotImplementedError

    def resume(self, table: TableName, reason: str | None) -> bool:
        raise NotImplementedError

    def close(self) -> None: ...


def test_each_change_is_told_once_with_who_ended_a_pause() -> None:
    store, told = Store(), list[Heard]()
    look = PauseLook(store)
    assert look.first() == Heard()
    look._tried(told.append)
    assert (told, store.asked) == ([], 2)
    store.found = {"dbo.a": PAUSE}
    look._tried(told.append)
    look._tried(told.append)
    store.found = {}
    look._tried(told.append)
    assert told == [Heard({"dbo.a": PAUSE}), Heard({}, {"dbo.a": END})]


def test_what_was_known_holds_while_the_server_is_away() -> None:
    store, told = Store(), list[Heard]()
    store.found = {"dbo.a": PAUSE}
    look = PauseLook(store)
    assert look.first() == Heard({"dbo.a": PAUSE})
    store.fails = TransientError("away")
    with capture_logs() as logs:
        look._tried(told.append)
    assert told == []
    assert [entry["log_level"] for entry in logs] == ["debug"]


def test_a_start_fails_where_nobody_knows_what_is_paused() -> None:
    store = Store()
    store.fails = TransientError("away")
    with pytest.raises(TransientError):
        PauseLook(store).first()


def test_a_start_fails_where_the_question_itself_is_refused() -> None:
    store = Store()
    store.fails = PermanentError("error 4060: cannot open the database")
    with pytest.raises(PermanentError):
        PauseLook(store).first()


def test_a_right_that_is_missing_is_a_warning_once_and_the_ingester_starts() -> None:
    store, told = Store(), list[Heard]()
    store.fails = PausesHidden("no right", hint="GRANT SELECT")
    look = PauseLook(store)
    with capture_logs() as logs:
        assert look.first() == Heard()
        look._tried(told.append)
        store.fails, store.found = None, {"dbo.a": PAUSE}
        look._tried(told.append)
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [
        ("pauses of tables cannot be read", "warning"),
        ("pauses of tables can be read again", "info"),
    ]
    assert logs[0]["hint"] == "GRANT SELECT"
    assert told == [Heard({"dbo.a": PAUSE})]


@pytest.mark.parametrize("fails", [PausesHidden("the right was revoked", hint="GRANT SELECT"), None])
def test_a_known_pause_holds_where_it_can_no_longer_be_read_or_the_table_is_gone(fails: Exception | None) -> None:
    store, told = Store(), list[Heard]()
    store.found = {"dbo.a": PAUSE}
    look = PauseLook(store)
    look.first()
    store.found, store.fails = None, fails
    with capture_logs() as logs:
        look._tried(told.append)
        look._tried(told.append)
    assert told == []
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("pauses of tables cannot be read", "warning")]
    assert logs[0]["hint"]
    store.found, store.fails = {}, None
    look._tried(told.append)
    assert told == [Heard({}, {"dbo.a": END})]
