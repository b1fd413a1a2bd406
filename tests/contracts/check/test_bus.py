"""`dstream check` of the queue and the topics: what each fault is called, and the remedy beside it."""

from __future__ import annotations

import json
import os
import socket
import time
from datetime import timedelta
from typing import Literal

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from dstream.config import load_ingester
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.server import ServiceBusEmulator
from ingester.destination import destination_of
from ingester.sqlserver.sql import offsets as queries_of_offsets
from tests.contracts.check.conftest import LIMITED, LIMITED_KEY, LISTENER, LISTENER_KEY, SENDER, SENDER_KEY, Place


@pytest.fixture
def place(place: Place) -> Place:
    place.settings["locks"] = 'type = "local"'
    return place


def sending(place: Place) -> str:
    return f"queue {place.queue}, to send"


def receiving(place: Place) -> str:
    return f"queue {place.queue}, to receive"


def topic(place: Place) -> str:
    return f"topic {place.topic}"


def without_manage(place: Place, policy: str = LIMITED, key: str = LIMITED_KEY) -> None:
    begin = place.settings["bus"].partition("SharedAccessKeyName=")[0]
    end = ";UseDevelopmentEmulator=true" if "UseDevelopmentEmulator" in place.settings["bus"] else ""
    place.settings["bus"] = f"{begin}SharedAccessKeyName={policy};SharedAccessKey={key}{end}"


def send(place: Place, count: int) -> None:
    with (
        ServiceBusClient.from_connection_string(place.settings["bus"]) as client,
        client.get_topic_sender(place.topic) as sender,
    ):
        sender.send_messages([ServiceBusMessage(b"x", message_id=str(number)) for number in range(count)])


def test_what_is_there_as_it_should_be_is_ok(place: Place) -> None:
    place.make_queue()
    place.make_topic("sub1")
    report = place.check()
    assert report.said("ok", sending(place)) == "with sessions, 0 messages waiting"
    assert report.said("ok", receiving(place)) == "with sessions, 0 messages waiting"
    assert report.said("ok", topic(place)) == "there, sub1 has 0 to read"


@pytest.mark.parametrize("how", ["verify", "none"])
def test_what_is_missing_and_not_to_be_created_fails(place: Place, how: str) -> None:
    place.settings["provision"] = how
    report = place.check()
    for subject in (sending(place), receiving(place), topic(place)):
        assert "it does not exist" in report.said("fail", subject)


@pytest.mark.parametrize(("how", "outcome"), [("create", "warn"), ("verify", "fail"), ("none", "fail")])
def test_a_queue_that_changes_were_sent_to_is_not_said_to_be_still_to_come(
    place: Place, how: Literal["create", "verify", "none"], outcome: str
) -> None:
    place.settings["provision"] = how
    here = destination_of(load_ingester(place.written(), os.environ))
    place.execute(
        queries_of_offsets.CREATE,
        "INSERT INTO dbo.cdc_offsets (table_name, last_lsn, last_command_id, last_seq, last_operation, destination)"
        " VALUES ('dbo.Persons', 0x0000FFFFFFFFFFFFFFFF, 1, 0x00000000000000000001, 2, N'elsewhere')",
    )
    elsewhere = place.check("--stage", "ingester").each("warn", sending(place))
    assert not [said for said in elsewhere if "changes may have been sent" in said]
    place.execute(f"UPDATE dbo.cdc_offsets SET destination = N'{here}'")
    said = place.check("--stage", "ingester").said(outcome, sending(place))
    assert "although changes may have been sent to it: it may have been deleted, or its name changed" in said
    assert '"When a queue was deleted" in docs/fail.md' in said
    place.execute("UPDATE dbo.cdc_offsets SET last_lsn = NULL, last_command_id = NULL")
    assert "changes may have been sent" not in "".join(place.check("--stage", "ingester").lines)


@pytest.mark.parametrize(("ordering", "sessions"), [("table", False), ("key", False), ("none", True)])
def test_a_queue_whose_sessions_do_not_match_fails(place: Place, ordering: str, sessions: bool) -> None:
    place.settings["ordering"] = ordering
    place.make_queue(requires_session=sessions)
    report = place.check()
    for subject in (sending(place), receiving(place)):
        said = report.said("fail", subject)
        assert "sessions, and queue.ordering asks for" in said
        assert "change queue.ordering" in said


FORGETFUL = {"default_message_time_to_live": timedelta(minutes=1), "auto_delete_on_idle": timedelta(minutes=5)}


def test_a_queue_that_forgets_fails_and_a_topic_is_warned_of(place: Place) -> None:
    place.make_queue(**FORGETFUL)
    place.make_topic("sub1", **FORGETFUL)
    report = place.check()
    assert report.status == 1
    for subject in (sending(place), receiving(place)):
        deleted, unused = report.each("fail", subject)
        assert "for 1m is deleted without a trace" in deleted
        assert "not used for 5m" in unused
    assert len(report.each("warn", topic(place))) == 2


def test_a_queue_that_dead_letters_what_expires_fails_with_other_words(place: Place) -> None:
    place.make_queue(
        default_message_time_to_live=timedelta(days=14),
        dead_lettering_on_message_expiration=True,
        requires_session=True,
    )
    assert "for 14 days is dead-lettered" in place.check("--stage", "router").said("fail", receiving(place))


def test_a_queue_that_forwards_fails(place: Place) -> None:
    place.admin.create_queue(f"{place.queue}-next")
    place.settings["ordering"] = "none"
    place.make_queue(forward_to=f"{place.queue}-next", requires_session=False)
    report = place.check("--stage", "router")
    assert any(f"to {place.queue}-next" in said for said in report.each("fail", receiving(place)))


def test_a_topic_with_smaller_messages_than_the_queue_is_warned_of(place: Place) -> None:
    place.make_queue(max_message_size_in_kilobytes=1024)
    place.make_topic("sub1")
    said = place.check("--stage", "router").said("warn", topic(place))
    assert "up to 256 KB, and the ingest queue of up to 1024 KB" in said


def test_without_duplicate_detection_there_is_a_warning(place: Place) -> None:
    place.make_queue(requires_duplicate_detection=False)
    place.make_topic("sub1", requires_duplicate_detection=False)
    report = place.check()
    for subject in (sending(place), receiving(place), topic(place)):
        assert "no duplicate detection" in report.said("warn", subject)


def test_a_window_that_is_shorter_than_a_failover_is_warned_of(place: Place) -> None:
    window = timedelta(minutes=9)
    place.make_queue(duplicate_detection_history_time_window=window)
    place.make_topic("sub1", duplicate_detection_history_time_window=window)
    report = place.check()
    for subject in (sending(place), topic(place)):
        said = report.said("warn", subject)
        assert "remembered for 9m, and a failover may take 10m" in said
        assert "DuplicateDetectionHistoryTimeWindow" in said


def test_a_short_lock_is_warned_of(place: Place) -> None:
    place.make_queue(lock_duration=timedelta(seconds=10))
    assert "its locks last 10s" in place.check("--stage", "router").said("warn", receiving(place))


def test_few_deliveries_are_warned_of(place: Place) -> None:
    place.make_queue(max_delivery_count=3)
    assert "after 3 deliveries" in place.check("--stage", "router").said("warn", receiving(place))


def test_dead_letters_are_warned_of(place: Place) -> None:
    place.make_queue()
    with ServiceBusClient.from_connection_string(place.settings["bus"]) as client:
        with client.get_queue_sender(place.queue) as sender:
            sender.send_messages(ServiceBusMessage(b"x", session_id="s", message_id="1"))
        with client.get_queue_receiver(place.queue, session_id="s") as receiver:
            receiver.dead_letter_message(receiver.receive_messages(1, max_wait_time=5)[0])
    said = place.check().said("warn", receiving(place))
    assert "1 message in its dead-letter queue" in said
    assert place.check("--stage", "ingester").each("warn", sending(place)) == [], "each dead letter is told of once"


def test_what_waits_is_counted_and_not_taken(place: Place) -> None:
    place.make_queue()
    place.make_topic("sub1", "other")
    send(place, 3)
    for _ in range(2):
        said = place.check("--stage", "router").said("ok", topic(place))
        assert "sub1 has 3 to read" in said
        assert "other has 3 to read" in said


def test_a_missing_topic_is_a_warning_while_messages_wait_in_the_queue(place: Place) -> None:
    place.make_queue()
    assert "created at a start, or when" in place.check("--stage", "router").said("ok", topic(place))
    with (
        ServiceBusClient.from_connection_string(place.settings["bus"]) as client,
        client.get_queue_sender(place.queue) as sender,
    ):
        sender.send_messages(ServiceBusMessage(b"x", message_id="1", session_id="s"))
    assert "restart one that runs" in place.check("--stage", "router").said("warn", topic(place))


def test_a_topic_without_a_subscription_is_warned_of(place: Place) -> None:
    place.make_topic()
    place.settings["subscriptions"] = ""
    assert "what is sent to it is dropped" in place.check("--stage", "router").said("warn", topic(place))


def test_a_subscription_that_verify_would_miss_fails_and_create_would_make_is_ok(place: Place) -> None:
    place.make_topic("other")
    place.settings["provision"] = "verify"
    assert "no subscription sub1" in place.check("--stage", "router").said("fail", topic(place))
    place.settings["provision"] = "none"
    assert "no subscription sub1" in place.check("--stage", "router").said("warn", topic(place))
    place.settings["provision"] = "create"
    assert place.check("--stage", "router").said("ok", topic(place))


def test_without_the_manage_right_a_start_that_needs_none_is_a_warning(place: Place) -> None:
    place.make_queue()
    place.make_topic("sub1")
    without_manage(place)
    place.settings["provision"] = "none"
    report = place.check()
    assert report.status == 0
    said = report.said("warn", sending(place))
    assert "could not be checked" in said
    assert "Manage" in said
    assert report.said("warn", "topics")
    assert report.said("ok", topic(place)) == "may be sent to"


def test_without_the_manage_right_a_start_that_needs_it_fails(place: Place) -> None:
    place.make_queue()
    without_manage(place)
    said = place.check().said("fail", receiving(place))
    assert "Manage" in said
    assert 'provision = "none"' in said


def test_without_the_manage_right_a_missing_topic_is_found_by_a_link(place: Place) -> None:
    place.make_queue()
    without_manage(place)
    place.settings["provision"] = "none"
    report = place.check("--stage", "router")
    assert report.said("fail", topic(place))
    assert report.status == 1


def test_a_namespace_that_is_not_there_fails(place: Place) -> None:
    place.settings["management"] = "http://127.0.0.1:1"
    report = place.check("--stage", "router")
    status, lines = report.status, report.lines
    assert status == 1
    assert [line.partition(": ")[0] for line in lines[:2]] == [f"fail  queue {place.queue}", "fail  topics"]


def test_a_namespace_that_takes_no_connection_fails_although_nothing_was_created_yet(place: Place) -> None:
    with socket.socket() as nobody:  # bound and never listening: the port refuses
        nobody.bind(("127.0.0.1", 0))
        host = place.settings["bus"].partition("sb://")[2].partition(";")[0]
        place.settings["bus"] = place.settings["bus"].replace(host, f"127.0.0.1:{nobody.getsockname()[1]}")
        report = place.check()
    assert report.status == 1
    assert "refuses connections" in report.said("fail", sending(place))
    assert "refuses connections" in report.said("fail", "topics")


def test_only_the_stage_that_was_asked_for_is_checked(place: Place) -> None:
    place.settings["port"] = 1
    report = place.check("--stage", "router")
    status, lines = report.status, report.lines
    assert status == 0
    assert [line.split()[1] for line in lines] == ["queue", "topic", "connections:"]
    place.settings["port"] = place.login.port
    lines = place.check("--stage", "ingester").lines
    assert not any(line.split()[1] == "topic" for line in lines)


@pytest.mark.parametrize("ordering", ["table", "none"])
def test_a_missing_right_to_listen_shows(place: Place, ordering: str) -> None:
    place.settings |= {"ordering": ordering, "provision": "none"}
    place.make_queue(requires_session=ordering != "none")
    place.make_topic("sub1")
    without_manage(place, SENDER, SENDER_KEY)
    report = place.check()
    assert "lacks the right Listen" in report.said("fail", receiving(place))
    assert report.status == 1
    assert report.each("fail", sending(place)) == report.each("fail", topic(place)) == []


@pytest.mark.parametrize("ordering", ["table", "none"])
def test_that_the_queue_may_be_received_from_is_found_out_without_taking_anything(place: Place, ordering: str) -> None:
    session = None if ordering == "none" else "s"
    place.settings["ordering"] = ordering
    place.make_queue(requires_session=session is not None)
    with (
        ServiceBusClient.from_connection_string(place.settings["bus"]) as client,
        client.get_queue_sender(place.queue) as sender,
    ):
        sender.send_messages(ServiceBusMessage(b"x", message_id="1", session_id=session))
        place.check("--stage", "router")
        with client.get_queue_receiver(place.queue, session_id=session) as receiver:
            [message] = receiver.receive_messages(1, max_wait_time=5)
            assert message.delivery_count == 0


@pytest.mark.parametrize(
    ("ahead", "outcome", "words"),
    [
        (20, "warn", "s ahead of"),
        (-30, "warn", "s behind"),
        (90, "fail", "longer than the queue's locks last (1m)"),
    ],
)
def test_a_clock_that_is_wrong_shows(place: Place, ahead: int, outcome: str, words: str) -> None:
    with ServiceBusEmulator(clock=lambda: time.time() - ahead) as skewed:
        place.settings |= {
            "bus": skewed.connection_string,
            "management": f"http://127.0.0.1:{skewed.http_port}",
        }
        skewed.admin.create(place.queue, QueueDescription(requires_session=True, lock_duration=timedelta(minutes=1)))
        assert words in place.check("--stage", "router").said(outcome, "clock")


def test_a_router_of_packs_that_may_not_send_to_the_queue_is_warned_of(place: Place) -> None:
    place.settings["provision"] = "none"
    place.settings["ordering"] = 'table"\n        pack = "max'
    place.make_queue()
    place.make_topic("sub1")
    assert place.check("--stage", "router").each("warn", f"queue {place.queue}, to send again") == []
    without_manage(place, LISTENER, LISTENER_KEY)
    report = place.check("--stage", "router")
    assert "cannot be taken out of it" in report.said("warn", f"queue {place.queue}, to send again")


def test_the_findings_are_one_json_document_as_well(place: Place) -> None:
    place.make_queue(lock_duration=timedelta(seconds=10))
    place.make_topic("sub1")
    report = place.check("--stage", "router", "--json")
    told = json.loads("\n".join(report.lines))
    assert told["outcome"] == "warn"
    assert [(each["stage"], each["outcome"]) for each in told["findings"]] == [
        ("router", "warn"),
        ("router", "ok"),
        ("router", "ok"),
    ]
    [queue, *_] = told["findings"]
    assert queue.keys() == {"stage", "outcome", "subject", "text", "remedy"}
    assert queue["remedy"] == "set LockDuration to 30s or more"
    assert [place.check("--stage", "router", *more).status for more in ([], ["--strict"])] == [0, 1]
