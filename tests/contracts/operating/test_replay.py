"""`dstream replay` as a user runs it: the right changes once more, to another topic, and nothing of the live stream moves."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from emulators.servicebus.server import ServiceBusEmulator
from ingester.sqlserver.position import LogPosition, Lsn
from tests.contracts.bus.test_router import read
from tests.contracts.check.conftest import _numbers
from tests.contracts.operating.conftest import PERSONS, Desk


@pytest.fixture
def topic() -> str:
    """A topic of this test alone."""
    return f"copy-{next(_numbers)}"


class Copies:
    """The messages of a topic, which has the subscription sub1."""

    def __init__(self, servicebus: ServiceBusEmulator, topic: str, count: int) -> None:
        found = read(servicebus, topic, count)
        self.sessions = {message.session_id for message in found}
        self.ids = [message.message_id for message in found]
        bodies: list[dict[str, Any]] = [json.loads(b"".join(message.body)) for message in found]
        self.metadata = [body["metadata"] for body in bodies]
        self.keys = [body["data"]["ID"] for body in bodies]


def test_the_changes_of_a_range_are_sent_once_more_and_the_offset_stays(
    desk: Desk, servicebus: ServiceBusEmulator, topic: str
) -> None:
    lsns = desk.insert(1, 2, 3, 4)
    with desk.owner() as owner:
        here = LogPosition.end_of(Lsn(bytes.fromhex(lsns[3][2:])))
        owner.offsets.commit(PERSONS, owner.lease.epoch, seen=None, position=here)
        ran = desk.run("replay", "persons", "--from", lsns[1], "--to", lsns[2], "--to-topic", topic.upper())
        assert ran.status == 0, ran.err
        owner.offsets.commit(PERSONS, owner.lease.epoch, seen=here, position=here)
    [line] = ran.lines
    said = re.fullmatch(
        rf"replay ([0-9a-f]{{12}}): 2 changes of dbo\.Persons sent to topic {topic}, from before LSN {lsns[1]} to after LSN {lsns[2]}",
        line,
    )
    assert said, line
    copies = Copies(servicebus, topic, 2)
    assert copies.keys == [2, 3]
    assert [each["Replay"]["Id"] for each in copies.metadata] == [said[1]] * 2
    assert copies.ids == [f"{each['Replay']['EventID']}:{said[1]}" for each in copies.metadata]
    assert {each["Destination"] for each in copies.metadata} == {topic}
    assert copies.sessions == {desk.place.topic}


def test_they_have_the_envelope_of_the_output(desk: Desk, servicebus: ServiceBusEmulator, topic: str) -> None:
    first, *_ = desk.insert(1, 2)
    desk.output = 'envelope = "changes"'
    assert desk.run("replay", "Persons", "--from", first, "--to-topic", topic).status == 0
    bodies = [json.loads(b"".join(message.body)) for message in read(servicebus, topic, 2)]
    assert [body["changes"][0]["data"]["ID"] for body in bodies] == [1, 2]


def test_without_an_end_it_goes_up_to_what_is_captured_and_each_replay_has_ids_of_its_own(
    desk: Desk, servicebus: ServiceBusEmulator, topic: str
) -> None:
    first, *_ = desk.insert(1, 2, 3)
    for _ in range(2):
        assert desk.run("replay", "Persons", "--from", first, "--to-topic", topic).status == 0
    copies = Copies(servicebus, topic, 6)
    assert copies.keys == [1, 2, 3, 1, 2, 3]
    assert len(set(copies.ids)) == 6


def test_a_table_that_another_instance_captures_from_the_middle_on_is_whole(
    desk: Desk, servicebus: ServiceBusEmulator, topic: str
) -> None:
    first, *_ = desk.insert(1, 2)
    desk.place.execute(
        "ALTER TABLE dbo.Persons ADD Age INT NULL",
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Persons', @role_name = NULL, "
        "@capture_instance = N'dbo_Persons_2'",
        "INSERT INTO dbo.Persons VALUES (3, N'a', N'b', 44)",
        "UPDATE dbo.Persons SET Age = 45 WHERE ID = 3",
    )
    deadline = time.monotonic() + 60
    while len(desk.rows("SELECT __$start_lsn FROM cdc.dbo_Persons_2_CT")) < 3:  # an update has two images
        assert time.monotonic() < deadline, "capture stands still"
        time.sleep(0.05)
    ran = desk.run("replay", "Persons", "--from", first, "--to-topic", topic)
    assert ran.status == 0, ran.err
    copies = Copies(servicebus, topic, 4)
    assert copies.keys == [1, 2, 3, 3]
    assert [each["CaptureInstance"] for each in copies.metadata] == ["dbo_Persons"] * 2 + ["dbo_Persons_2"] * 2


def test_times_are_borders_as_lsns_are(desk: Desk, servicebus: ServiceBusEmulator, topic: str) -> None:
    desk.insert(1)
    [[begun]] = desk.rows("SELECT DATEADD(millisecond, 10, MAX(tran_end_time)) FROM cdc.lsn_time_mapping")
    while desk.rows("SELECT GETDATE()")[0][0] <= begun + timedelta(milliseconds=20):
        continue
    desk.insert(2, 3)
    zone = desk.rows("SELECT DATEDIFF(minute, GETUTCDATE(), GETDATE())")[0][0]
    utc = (begun - timedelta(minutes=zone)).isoformat(timespec="milliseconds")
    far = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    ran = desk.run("replay", "Persons", "--from", utc, "--to", far, "--to-topic", topic)
    assert ran.status == 0, ran.err
    assert "replay ends where capture has come to" in ran.err
    assert Copies(servicebus, topic, 2).keys == [2, 3]
    ran = desk.run("replay", "Persons", "--from", "2001-01-01", "--to", utc, "--to-topic", topic)
    assert ran.status == 1
    assert "the range begins at 2001-01-01T00:00:00+00:00, below the low watermark, LSN 0x" in ran.err


def test_below_the_low_watermark_it_is_refused_and_named(desk: Desk, topic: str) -> None:
    desk.insert(1, 2)
    first, _, third = desk.insert(3)  # later: cleanup goes to the first LSN of the same commit time
    desk.place.execute(
        f"EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_Persons', @low_water_mark = {third}"
    )
    ran = desk.run("replay", "Persons", "--from", first, "--to-topic", topic)
    assert ran.status == 1
    assert f"the range begins at LSN {first}, below the low watermark, LSN {third}" in ran.err
    assert f"hint: --from {third} begins at the low watermark" in ran.err
    assert topic not in {each.name for each in desk.place.admin.list_topics()}
    assert desk.run("replay", "Persons", "--from", third, "--to-topic", topic).status == 0


@pytest.mark.parametrize(
    ("arguments", "status", "why"),
    [
        (["Nobody", "--from", "{0}", "--to-topic", "x"], 2, "no such table in the configuration"),
        (["Persons", "--from", "0x12", "--to-topic", "x"], 2, "not an LSN"),
        (["Persons", "--from", "yesterday", "--to-topic", "x"], 2, "--from yesterday: not a time"),
        (["Persons", "--from", "{0}", "--to", "soon", "--to-topic", "x"], 2, "--to soon: not a time"),
        (["Persons", "--from", "{0}", "--to-topic", "{topic}"], 2, "this is the topic of dbo.Persons"),
        (["Persons", "--from", "{0}", "--to-topic", "{queue}"], 2, "this is the ingest queue"),
        (["Persons", "--from", "{0}", "--to-topic", "a/b"], 2, "must be 1 to 260 of the characters"),
        (["Persons", "--from", "{1}", "--to", "{0}", "--to-topic", "x"], 1, "nothing is in the range"),
        (["Persons", "--from", "{0}", "--to", "0x" + "ff" * 10, "--to-topic", "x"], 1, "how far capture has come"),
    ],
)
def test_what_is_refused(desk: Desk, arguments: list[str], status: int, why: str) -> None:
    lsns = desk.insert(1, 2)
    given = [each.format(*lsns, topic=desk.place.topic, queue=desk.place.queue) for each in arguments]
    ran = desk.run("replay", *given)
    assert (ran.status, why in ran.err) == (status, True), ran.err
    assert "x" not in {each.name for each in desk.place.admin.list_topics()}


def test_a_table_that_is_not_captured_is_refused_with_the_statement_that_captures_it(desk: Desk, topic: str) -> None:
    first, *_ = desk.insert(1)
    desk.place.execute(
        "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'Persons', @capture_instance = N'all'"
    )
    ran = desk.run("replay", "Persons", "--from", first, "--to-topic", topic)
    assert (ran.status, "sp_cdc_enable_table" in ran.err) == (1, True), ran.err


def test_a_dry_run_counts_and_creates_nothing(desk: Desk, topic: str) -> None:
    first, *_ = desk.insert(1, 2)
    ran = desk.run("replay", "Persons", "--from", first, "--to-topic", topic, "--dry-run")
    assert (ran.status, ran.lines[-2:]) == (0, ["changes:  2 changes", "nothing was sent: --dry-run"]), ran.err
    assert topic not in {each.name for each in desk.place.admin.list_topics()}


def test_where_nothing_is_created_a_missing_topic_ends_it_and_it_says_how_to_go_on(desk: Desk, topic: str) -> None:
    first, *_ = desk.insert(1, 2)
    desk.place.settings["provision"] = "none"
    ran = desk.run("replay", "Persons", "--from", first, "--to-topic", topic)
    assert ran.status == 1
    assert f"dstream replay dbo.Persons --from {first} --to 0x" in ran.err


def test_interrupted_it_says_where_to_go_on_and_nothing_is_missing_then(
    desk: Desk, servicebus: ServiceBusEmulator, topic: str
) -> None:
    lsns = desk.insert(*range(1, 7))
    arguments = ["replay", "Persons", "--from", lsns[0], "--to-topic", topic]
    command = [sys.executable, "-m", "dstream", *arguments, "--max-rate", "1", "--config", str(desk.place.written())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        begun = next(line for line in running.stderr if "replay started" in line)
        assert "0 changes" not in begun
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (143, ""), err
    [begin] = re.findall(r"dstream replay dbo\.Persons --from (0x[0-9a-f]{20}) --to 0x[0-9a-f]{20} --to-topic", err)
    again = lsns[lsns.index(begin) :]
    assert desk.run("replay", "Persons", "--from", begin, "--to-topic", topic).status == 0
    sent = sum(each.active_message_count or 0 for each in desk.place.admin.list_subscriptions_runtime_properties(topic))
    keys = Copies(servicebus, topic, sent).keys
    assert set(keys) == set(range(1, 7))
    assert keys[-len(again) :] == list(range(7 - len(again), 7))
    assert len(keys) <= 7
