"""Each trouble has its severity, its cause, its remedy and the alert that reports the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from common.unread import Unread
from desk.documents.overview import Entity, Process, Trouble
from desk.documents.tables import Lag, Pause, Table
from desk.watching.alerts import SECONDS
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


AWAY = "topic s.orders is unavailable: it is currently SendDisabled: enable the entity"
TITLES: list[tuple[Seen, str]] = [
    (Seen([_table(state="stopped")]), "dbo.Persons has stopped"),
    (Seen([_table(state="gap")]), "dbo.Persons has lost changes"),
    (Seen([_table(state="nobody")]), "Nobody reads dbo.Persons"),
    (Seen([_table(lag=_lag(901))]), "dbo.Persons is behind"),
    (Seen([_table(state="paused", pause=PAUSE)]), "dbo.Persons is paused"),
    (
        Seen(processes=[Scraped(_process(reached=False, ready=None))], scrapes=True),
        "No router answers",
    ),
    (Seen(processes=[Scraped(_process(ready=False, text=AWAY))]), "Topic s.orders is disabled"),
    (
        Seen(processes=[Scraped(_process(ready=False, text="topic s.a of output lake is unavailable: gone"))]),
        "Topic s.a of the output lake accepts nothing",
    ),
    (
        Seen(
            processes=[Scraped(_process(stage="ingester", ready=False, text="the connection to SQL Server is lost: x"))]
        ),
        "The ingester 10.0.0.1:8080 has lost SQL Server",
    ),
    (Seen(queue=QUEUE, queue_grows=True), "The ingest queue grows"),
    (Seen(queue=QUEUE.model_copy(update={"dead_letters": 2})), "Dead letters wait in queue ingest"),
    (Seen(entities=[TOPIC.model_copy(update={"used_share": 0.95})]), "Topic t is nearly full"),
    (Seen(unread=[Unread("queue ingest", "no right", "grant Manage")]), "Queue ingest cannot be read"),
]


@pytest.mark.parametrize(("seen", "title"), TITLES)
def test_its_title_is_the_sentence_of_the_fault(seen: Seen, title: str) -> None:
    [found] = troubles(seen)
    assert found.what == title


def test_a_topic_that_accepts_nothing_is_one_trouble_with_the_routers_words() -> None:
    routers = [
        Scraped(
            _process(address=address, ready=False, text=f"{AWAY}\nand 3 more topics"), away=[("default", "s.orders")]
        )
        for address in ("a", "b")
    ]
    [found] = troubles(Seen(processes=routers))
    assert (found.what, found.entity) == ("Topic s.orders is disabled", "topic/s.orders")
    assert "enable the entity" in found.cause
    more = Scraped(_process(ready=False, text=f"{AWAY}\n1 session fails again and again"))
    causes = {each.what: each.cause for each in troubles(Seen(processes=[more]))}
    assert causes["The router 10.0.0.1:8080 is not ready"] == "1 session fails again and again"


def test_parts_with_one_cause_are_one_trouble_and_so_is_the_ingester_that_has_it_too() -> None:
    parts = [Unread(what, "no route to db-1", "look at the network") for what in ("tables", "offsets", "capture")]
    lost = _process(stage="ingester", ready=False, text="the connection to SQL Server is lost: no route to db-1")
    [found] = troubles(Seen(processes=[Scraped(lost)], unread=parts))
    assert (found.severity, found.what) == ("critical", "Tables, offsets and capture cannot be read")
    many = [Unread(f"topic t{number}", "no right", "grant Manage") for number in range(9)]
    [found] = troubles(Seen(unread=many))
    assert found.what == "Topic t0, topic t1, topic t2 and 6 more cannot be read"


def test_a_start_is_no_alarm() -> None:
    begins = Scraped(_process(stage="ingester", ready=False, text="starting: not asked yet"), starting=True)
    [found] = troubles(Seen([_table(state="nobody")], processes=[begins]))
    assert (found.severity, found.what) == ("warning", "The ingester 10.0.0.1:8080 is starting")
    unmet = Scraped(_process(reached=False, ready=None, text="connection refused"), starting=True)
    [found] = troubles(Seen(processes=[unmet], queue=QUEUE, scrapes=True))
    assert (found.severity, found.what) == ("warning", "No router answers yet")


def test_sql_of_a_remedy_says_in_which_database() -> None:
    stopped = Explanation(
        Silence.STOPPED, "capture has stopped", "EXEC sys.sp_cdc_start_job N'capture'; check the Agent"
    )
    [found] = troubles(Seen(capture=stopped, database="my]shop"))
    assert found.remedy == "USE [my]]shop]; EXEC sys.sp_cdc_start_job N'capture'; check the Agent"
    [found] = troubles(Seen([_table(headroom_seconds=4_000)], database="shop"))
    assert "`USE [shop]; EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = MINUTES`" in str(found.remedy)
    jobs = "USE msdb; GRANT SELECT ON OBJECT::dbo.cdc_jobs TO [dstream]"
    [found] = troubles(Seen(unread=[Unread("retention", "it may not be seen", jobs)], database="shop"))
    assert found.remedy == jobs


def test_an_alert_is_named_with_the_time_after_which_it_fires() -> None:
    [found] = troubles(Seen([_table(lag=_lag(901))]))
    assert (found.alert, found.alert_after_seconds) == ("DStreamLagHigh", 300)


def test_alerts_wait_as_long_as_their_rules() -> None:
    rules = {
        rule["alert"]: rule["for"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    }
    size = {"m": 60, "h": 3600}
    assert {name: int(rules[name][:-1]) * size[rules[name][-1]] for name in SECONDS} == SECONDS


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
    assert [(each.severity, each.what) for each in found] == [
        ("critical", "Nobody reads dbo.Late"),
        ("warning", "100 tables are behind"),
    ]
    assert "dbo.T0, dbo.T1, dbo.T2, dbo.T3, dbo.T4 and 95 more" in found[1].cause
