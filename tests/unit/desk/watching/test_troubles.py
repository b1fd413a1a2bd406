"""Each trouble has its severity, its cause, its remedy and the alert that reports the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.unread import Unread
from desk.documents.overview import Entity, Process, Trouble
from desk.documents.tables import Lag, Pause, Table
from desk.watching.scraping import Scraped
from desk.watching.seen import Seen
from desk.watching.troubles import troubles
from ingester.capture_status import Explanation, Silence

ALERTS = Path(__file__).parents[4] / "deploy/observability/alerts.yaml"
RETENTION = 100_000.0


def _table(name: str = "dbo.Persons", **changed: Any) -> Table:
    return Table.model_validate(
        {"table": name, "state": "idle", "lock": "held", "retention_seconds": RETENTION} | changed
    )


def _lag(seconds: float) -> Lag:
    return Lag(seconds=seconds, changes=5, at_least=False)


def _process(**changed: Any) -> Process:
    return Process.model_validate(
        {"address": "10.0.0.1:8080", "stage": "router", "reached": True, "ready": True, "alive": True} | changed
    )


PAUSE = Pause(at="2026-11-23T08:00:00Z", by="sa at desk-1", reason="an import")
QUEUE = Entity(entity="queue", kind="queue", name="ingest", active=5)
TOPIC = Entity(entity="topic/t/sub1", kind="subscription", name="t", subscription="sub1", active=5)

CASES: list[tuple[Seen, str, str | None, str]] = [
    (Seen([_table(state="stopped")]), "critical", "DStreamTableStopped", "stopped it with an error"),
    (Seen([_table(state="gap", problem="changes were lost")]), "critical", "DStreamTableStopped", "were lost"),
    (Seen([_table(state="absent", problem="not under CDC")]), "warning", "DStreamTableAbsent", "not under CDC"),
    (Seen([_table(state="nobody")]), "critical", "DStreamTableWithoutOwner", "no ingester"),
    (Seen([_table(lag=_lag(901))]), "warning", "DStreamLagHigh", "15 minutes behind"),
    (Seen([_table(headroom_seconds=24_000)]), "warning", "DStreamHeadroomLow", "in 7 hours cleanup"),
    (Seen([_table(headroom_seconds=4_000)]), "critical", "DStreamHeadroomNearlyGone", "cleanup may remove"),
    (Seen([_table(headroom_seconds=-1)]), "critical", "DStreamHeadroomNearlyGone", "may have removed"),
    (Seen([_table(state="paused", pause=PAUSE)]), "warning", "DStreamTablePaused", "by sa at desk-1: an import"),
    (
        Seen([_table(state="paused", pause=PAUSE, headroom_seconds=24_000, lag=_lag(5000))]),
        "critical",
        "DStreamHeadroomLow",
        "paused",
    ),
    (
        Seen([_table(state="paused", pause=PAUSE, headroom_seconds=-5, lag=_lag(5000))]),
        "critical",
        "DStreamHeadroomLow",
        "cleanup has passed its offset",
    ),
    (
        Seen([_table(state="paused", pause=PAUSE, headroom_seconds=-5, lag=Lag(seconds=0, changes=0, at_least=False))]),
        "warning",
        "DStreamTablePaused",
        "by sa at desk-1",
    ),
    (Seen([_table(problem="another table has the name now")]), "warning", None, "another table"),
    (
        Seen(capture=Explanation(Silence.STOPPED, "capture has stopped", "start the job")),
        "critical",
        "DStreamCaptureStopped",
        "has stopped",
    ),
    (
        Seen(capture=Explanation(Silence.LAGGING, "capture lags", "raise maxscans")),
        "warning",
        "DStreamCaptureLagging",
        "lags",
    ),
    (
        Seen(processes=[Scraped(_process(reached=False, ready=None, text="connection refused"))]),
        "critical",
        "DStreamRouterDown",
        "0 of 1 ready: connection refused",
    ),
    (
        Seen(processes=[Scraped(_process(stage="unknown", reached=False, ready=None, text="connection refused"))]),
        "warning",
        "DStreamNotScraped",
        "connection refused",
    ),
    (
        Seen(processes=[Scraped(_process()), Scraped(_process(address="b", reached=False, text="no answer"))]),
        "warning",
        "DStreamNotScraped",
        "no answer",
    ),
    (
        Seen(queue=QUEUE, scrapes=True, processes=[Scraped(_process(reached=False, ready=None, text="no answer"))]),
        "critical",
        "DStreamRouterDown",
        "0 of 1 ready: no answer; 5 messages wait",
    ),
    (
        Seen(
            processes=[Scraped(_process(stage="ingester", ready=False, text="the connection to SQL Server is lost: x"))]
        ),
        "critical",
        "DStreamSqlServerUnreachable",
        "is lost",
    ),
    (Seen(processes=[Scraped(_process(ready=False, text="no queue"))]), "warning", "DStreamRouterNotReady", "no queue"),
    (Seen(processes=[Scraped(_process(alive=False))]), "critical", "DStreamRestarts", "hangs"),
    (Seen(processes=[Scraped(_process(), stopped=2)]), "critical", "DStreamSessionsStopped", "2 sessions"),
    (Seen(processes=[Scraped(_process(), away=[("default", "t")])]), "critical", "DStreamTopicUnavailable", "nothing"),
    (Seen(processes=[Scraped(_process(behind={"lake": 3}))]), "warning", "DStreamOutputBehind", "3 sessions"),
    (Seen(queue=QUEUE, scrapes=True), "critical", "DStreamRouterDown", "5 messages wait"),
    (Seen(unwatched=["router"]), "warning", None, "no health port of the router is configured"),
    (Seen(queue=QUEUE, queue_grows=True), "warning", "DStreamQueueGrows", "5 messages wait"),
    (Seen(queue=QUEUE.model_copy(update={"dead_letters": 2})), "warning", "DStreamDeadLettersWait", "2 dead letters"),
    (
        Seen(queue=QUEUE.model_copy(update={"dead_letters": 1})),
        "warning",
        "DStreamDeadLettersWait",
        "1 dead letter waits",
    ),
    (Seen(entities=[TOPIC.model_copy(update={"dead_letters": 2})]), "warning", None, "2 dead letters"),
    (Seen(entities=[TOPIC.model_copy(update={"transfer_dead_letters": 2})]), "warning", None, "not be forwarded"),
    (Seen(entities=[TOPIC.model_copy(update={"used_share": 0.6})]), "warning", "DStreamEntityFilling", "60%"),
    (Seen(entities=[TOPIC.model_copy(update={"used_share": 0.95})]), "critical", "DStreamEntityNearlyFull", "95%"),
    (Seen(unread=[Unread("offsets", "no route", "look")]), "critical", "DStreamSqlServerUnreachable", "no route"),
    (Seen(unread=[Unread("queue ingest", "no right", "grant Manage")]), "warning", None, "no right"),
]


@pytest.mark.parametrize(("seen", "severity", "alert", "words"), CASES)
def test_a_trouble_names_cause_remedy_and_alert(seen: Seen, severity: str, alert: str | None, words: str) -> None:
    [found] = troubles(seen)
    assert (found.severity, found.alert) == (severity, alert)
    assert words in found.cause


def test_every_alert_that_is_named_exists() -> None:
    known = ALERTS.read_text(encoding="utf-8")
    missing = {alert for _, _, alert, _ in CASES if alert is not None and f"alert: {alert}\n" not in known}
    assert not missing - {"DStreamTablePaused"}


def test_what_is_well_or_can_never_be_known_is_no_trouble() -> None:
    well = Seen(
        [_table(lag=_lag(10), headroom_seconds=90_000)],
        QUEUE,
        [TOPIC],
        [Scraped(_process()), Scraped(_process(ready=False, stage="ingester", text="stopped with an error; dbo.A"))],
        unread=[Unread("owners", 'locks of type "local" are known to their own process alone')],
        scrapes=True,
    )
    assert troubles(well) == []


def test_a_login_that_is_refused_is_one_trouble() -> None:
    why = "cannot connect to db-1: login refused"
    ingester = _process(stage="ingester", ready=False, text=f"the connection to SQL Server is lost: {why}")
    parts = [Unread(what, why, "check user and password") for what in ("offsets", "tables", "capture")]
    [found] = troubles(Seen(processes=[Scraped(ingester)], unread=parts))
    assert (found.severity, found.what, found.cause) == ("critical", "SQL Server refuses the login", why)
    assert found.remedy == "check user and password"


def test_cleanup_is_no_danger_where_nothing_waits_and_capture_is_current() -> None:
    idle = _table(headroom_seconds=-1, lag=Lag(seconds=0, changes=0, at_least=False))
    assert troubles(Seen([idle])) == []
    late = Explanation(Silence.STOPPED, "capture has stopped", "start the job")
    assert "DStreamHeadroomNearlyGone" in {each.alert for each in troubles(Seen([idle], capture=late))}
    assert "DStreamHeadroomNearlyGone" in {
        each.alert for each in troubles(Seen([idle], unread=[Unread("capture", "no answer")]))
    }


def test_the_trouble_of_a_pause_is_as_old_as_the_pause() -> None:
    [found] = troubles(Seen([_table(state="paused", pause=PAUSE)]))
    assert found.since == PAUSE.at


def test_many_tables_with_the_same_trouble_are_one_and_the_worst_comes_first() -> None:
    tables = [_table(f"dbo.T{number}", lag=_lag(1000)) for number in range(100)]
    found: list[Trouble] = troubles(Seen([*tables, _table("dbo.Late", state="nobody")]))
    assert [(each.severity, each.what) for each in found] == [("critical", "dbo.Late"), ("warning", "100 tables")]
    assert "dbo.T0, dbo.T1, dbo.T2, dbo.T3, dbo.T4 and 95 more" in found[1].cause
