"""`--data DIR`: what Azure's client was promised before a restart is there after it; what cannot be kept is not accepted.

Row 59 of the contract. service-bus-throttling: messages are "committed to storage before ... acknowledges".
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiver,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import ServiceBusError

from emulators.servicebus.__main__ import main
from emulators.servicebus.description import (
    Description,
    EntityInfo,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from emulators.servicebus.rules.description import DEFAULT_RULE, RuleDescription, SqlAction, SqlFilter
from emulators.servicebus.server import ServiceBusEmulator
from emulators.servicebus.storage.data_file import FILE
from emulators.servicebus.storage.sqlite_journal import SqliteJournal
from tests.emulators.servicebus.conftest import Clock


class Life:
    """One run of the emulator on the directory, and a client."""

    def __init__(self, emulator: ServiceBusEmulator, client: ServiceBusClient) -> None:
        self.admin = emulator.admin
        self.client = client

    def send(self, queue: str, *bodies: str, **properties: Any) -> None:
        with self.client.get_queue_sender(queue) as sender:
            sender.send_messages([ServiceBusMessage(body, **properties) for body in bodies])

    def receive(self, queue: str, count: int, **options: Any) -> list[tuple[str, int, int]]:
        """Body, sequence number and delivery count of messages, which are completed."""
        with self.client.get_queue_receiver(queue, **options) as receiver:
            messages = take(receiver, count)
            for message in messages:
                receiver.complete_message(message)
        return [(str(m), m.sequence_number, m.delivery_count) for m in messages]


Start = Callable[[], Any]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def start(tmp_path: Path, clock: Clock) -> Start:
    """A life of the namespace, as a context; the next one begins where it ended."""

    @contextmanager
    def live() -> Iterator[Life]:
        with (
            ServiceBusEmulator(data=tmp_path / "data", clock=clock) as emulator,
            ServiceBusClient.from_connection_string(emulator.connection_string, retry_total=0, keep_alive=0) as client,
        ):
            yield Life(emulator, client)

    return live


def take(receiver: ServiceBusReceiver, count: int) -> Any:
    messages: list[Any] = []
    while len(messages) < count:
        arrived = receiver.receive_messages(count - len(messages), max_wait_time=5)
        assert arrived, f"only {len(messages)} of {count} arrived"
        messages += arrived
    return messages


MINE = "t/Subscriptions/mine"
ORDERS = QueueDescription(requires_session=True, max_delivery_count=3, user_metadata="ours")
ENTITIES: dict[str, Description] = {
    "Orders": ORDERS,
    "news": TopicDescription(default_message_time_to_live=timedelta(days=1)),
    "news/Subscriptions/Mine": SubscriptionDescription(lock_duration=timedelta(seconds=7)),
}


def test_entities_come_back_with_their_settings_names_and_times(start: Start, clock: Clock) -> None:
    def listed(life: Life) -> list[EntityInfo]:
        infos = [*life.admin.queues(), *life.admin.topics(), *life.admin.subscriptions("news")]
        return [replace(info, accessed_at=info.created_at) for info in infos]

    with start() as life:
        for path, description in ENTITIES.items():
            life.admin.create(path, description)
        life.admin.create("gone", QueueDescription())
        clock.advance(timedelta(minutes=1))
        life.admin.update("orders", replace(ORDERS, max_delivery_count=4))
        life.admin.delete("gone")
        before = listed(life)
    with start() as life:
        assert listed(life) == before
    assert before[0].updated_at > before[0].created_at


def test_messages_come_back_in_order_with_numbers_and_counts(start: Start) -> None:
    with start() as life:
        life.admin.create("q", QueueDescription())
        life.send("q", *"abcdef")
        with life.client.get_queue_receiver("q") as receiver:
            a, b, c, d, _ = take(receiver, 5)
            receiver.complete_message(a)
            receiver.abandon_message(b)
            receiver.dead_letter_message(c, reason="bad", error_description="really")
            receiver.defer_message(d)  # and the fifth is locked to the end
    with start() as life:
        counts = life.admin.get("q").counts
        assert (counts.active, counts.dead_letter) == (4, 1)
        life.send("q", "g")
        assert life.receive("q", 4) == [("b", 2, 1), ("e", 5, 0), ("f", 6, 0), ("g", 7, 0)]
        with life.client.get_queue_receiver("q") as receiver:
            (deferred,) = receiver.receive_deferred_messages([4])
            assert (str(deferred), deferred.delivery_count) == ("d", 1)
            receiver.complete_message(deferred)
        with life.client.get_queue_receiver("q", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
            (dead,) = take(receiver, 1)
            assert (str(dead), dead.sequence_number, dead.dead_letter_reason) == ("c", 3, "bad")
            receiver.complete_message(dead)
    with start() as life:
        counts = life.admin.get("q").counts
        assert (counts.active, counts.dead_letter, counts.size_in_bytes) == (0, 0, 0)
        life.send("q", "h")
        assert life.receive("q", 1) == [("h", 8, 0)]


def test_everything_of_a_message_comes_back(start: Start) -> None:
    def peeked(life: Life) -> dict[str, Any]:
        with life.client.get_queue_receiver("q") as receiver:
            (message,) = receiver.peek_messages(1)
        names = (
            "message_id", "subject", "content_type", "correlation_id", "to", "reply_to", "partition_key", "time_to_live",
            "application_properties", "enqueued_time_utc", "expires_at_utc", "sequence_number", "enqueued_sequence_number",
        )  # fmt: skip
        return {"body": b"".join(message.body), **{name: getattr(message, name) for name in names}}

    with start() as life:
        life.admin.create("q", QueueDescription())
        properties: dict[str | bytes, Any] = {
            "text": "ä",
            "number": 7,
            "flag": True,
            "octets": b"\x00\x01",
            "half": 0.5,
        }
        rich = ServiceBusMessage(
            b"\x00body", message_id="m", subject="s", content_type="c", correlation_id="x", to="t", reply_to="r",
            partition_key="p", time_to_live=timedelta(hours=1), application_properties=properties,
        )  # fmt: skip
        with life.client.get_queue_sender("q") as sender:
            sender.send_messages(rich)
        before = peeked(life)
    with start() as life:
        assert peeked(life) == before


def test_scheduled_messages_are_still_due_and_can_still_be_cancelled(start: Start, clock: Clock) -> None:
    with start() as life:
        life.admin.create("q", QueueDescription())
        due = datetime.fromtimestamp(clock(), UTC) + timedelta(minutes=30)
        with life.client.get_queue_sender("q") as sender:
            first, second = sender.schedule_messages([ServiceBusMessage("a"), ServiceBusMessage("b")], due)
    with start() as life:
        assert life.admin.get("q").counts.scheduled == 2
        with life.client.get_queue_sender("q") as sender:
            sender.cancel_scheduled_messages(first)
    clock.advance(timedelta(minutes=30))
    with start() as life:
        assert life.receive("q", 1) == [("b", second + 1, 0)]


def test_time_passes_while_it_is_down(start: Start, clock: Clock) -> None:
    with start() as life:
        life.admin.create("q", QueueDescription(dead_lettering_on_message_expiration=True))
        life.send("q", "brief", time_to_live=timedelta(minutes=1))
    clock.advance(timedelta(minutes=2))
    with start() as life:
        assert life.receive("q", 1, sub_queue=ServiceBusSubQueue.DEAD_LETTER) == [("brief", 1, 0)]


def test_sessions_come_back_with_their_state_and_nobody_holds_them(start: Start) -> None:
    with start() as life:
        life.admin.create("s", QueueDescription(requires_session=True))
        life.send("s", "1", "2", session_id="a")
        with life.client.get_queue_receiver("s", session_id="empty") as receiver:
            receiver.session.set_state("no messages")
        with life.client.get_queue_receiver("s", session_id="cleared") as receiver:
            receiver.session.set_state("something")
            receiver.session.set_state(None)
        receiver = life.client.get_queue_receiver("s", session_id="a").__enter__()
        take(receiver, 1)
        receiver.session.set_state(b"at 1")
    with start() as life:
        with life.client.get_queue_receiver("s", session_id=NEXT_AVAILABLE_SESSION) as receiver:
            assert receiver.session.session_id == "a"
            assert receiver.session.get_state() == b"at 1"
            assert [str(m) for m in take(receiver, 2)] == ["1", "2"]
        with life.client.get_queue_receiver("s", session_id="empty") as receiver:
            assert receiver.session.get_state() == b"no messages"
        with life.client.get_queue_receiver("s", session_id="cleared") as receiver:
            assert receiver.session.get_state() is None


def test_duplicates_are_known_again_until_the_window_ends(start: Start, clock: Clock) -> None:
    window = timedelta(minutes=5)
    description = QueueDescription(requires_duplicate_detection=True, duplicate_detection_history_time_window=window)
    with start() as life:
        life.admin.create("q", description)
        life.send("q", "first", message_id="same")
        life.receive("q", 1)
    with start() as life:
        life.send("q", "again", message_id="same")
        assert life.admin.get("q").counts.active == 0
    clock.advance(window + timedelta(seconds=1))
    with start() as life:
        life.send("q", "later", message_id="same")
        assert life.admin.get("q").counts.active == 1


def test_every_subscription_keeps_its_own_copies(start: Start) -> None:
    with start() as life:
        life.admin.create("t", TopicDescription())
        for name in "ab":
            life.admin.create(f"t/Subscriptions/{name}", SubscriptionDescription())
        with life.client.get_topic_sender("t") as sender:
            sender.send_messages([ServiceBusMessage("1"), ServiceBusMessage("2")])
        with life.client.get_subscription_receiver("t", "a") as receiver:
            receiver.complete_message(take(receiver, 1)[0])
    with start() as life:
        with life.client.get_topic_sender("t") as sender:
            sender.send_messages(ServiceBusMessage("3"))
        for name, expected in (("a", ["2", "3"]), ("b", ["1", "2", "3"])):
            with life.client.get_subscription_receiver("t", name) as receiver:
                messages = take(receiver, len(expected))
                assert [str(m) for m in messages] == expected
                assert messages[-1].enqueued_sequence_number == 3


def test_rules_come_back_and_decide(start: Start) -> None:
    with start() as life:
        life.admin.create("t", TopicDescription())
        life.admin.create(MINE, SubscriptionDescription())
        coloured = SqlFilter("colour = @wanted", {"@wanted": "red"})
        life.admin.create_rule(MINE, "Red", RuleDescription(coloured, SqlAction("SET seen = 1")))
        life.admin.delete_rule(MINE, DEFAULT_RULE)
        before = life.admin.rules(MINE)
    with start() as life:
        assert life.admin.rules(MINE) == before
        colours = [ServiceBusMessage(c, application_properties={"colour": c}) for c in ("blue", "red")]
        with life.client.get_topic_sender("t") as sender:
            sender.send_messages(colours)
        with life.client.get_subscription_receiver("t", "mine") as receiver:
            (message,) = take(receiver, 1)
            assert (str(message), message.application_properties[b"seen"]) == ("red", 1)


def test_forwarding_goes_on_with_what_waited(start: Start, clock: Clock) -> None:
    with start() as life:
        life.admin.create("graves", QueueDescription())
        life.admin.create("q", QueueDescription(forward_dead_lettered_messages_to="graves"))
        due = datetime.fromtimestamp(clock(), UTC) + timedelta(minutes=10)
        with life.client.get_queue_sender("q") as sender:
            sender.schedule_messages(ServiceBusMessage("late"), due)
    clock.advance(timedelta(minutes=10))
    with start() as life, life.client.get_queue_receiver("q") as receiver:
        receiver.dead_letter_message(take(receiver, 1)[0], reason="bad")
    with start() as life, life.client.get_queue_receiver("graves") as receiver:
        (message,) = take(receiver, 1)
        assert (str(message), message.dead_letter_source, message.dead_letter_reason) == ("late", "q", "bad")


def test_nothing_of_a_deleted_entity_comes_back_with_its_name(start: Start) -> None:
    with start() as life:
        life.admin.create("q", QueueDescription())
        life.send("q", "old")
        life.admin.delete("q")
        life.admin.create("q", QueueDescription())
    with start() as life:
        assert life.admin.get("q").counts.active == 0
        life.send("q", "new")
        assert life.receive("q", 1) == [("new", 1, 0)]


# -- the program


def run(data: Path, *options: str, before: Callable[[], None] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "emulators.servicebus", "--port", "0", "--http-port", "0", "--json"]
    return subprocess.Popen(
        [*command, "--data", str(data), *options],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=before,
    )


def facts(program: subprocess.Popen[str]) -> dict[str, Any]:
    assert program.stdout is not None
    told: dict[str, Any] = json.loads(program.stdout.readline())
    return told


def test_a_disk_that_is_full_stops_the_emulator_and_nothing_unkept_was_acknowledged(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="the limit on a file's size is POSIX")
    limit = (600_000, 600_000)
    pair = [ServiceBusMessage("x" * 10_000), ServiceBusMessage("y" * 10_000)]
    acknowledged = 0
    with (
        run(tmp_path, "--queue", "q", before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit)) as program,
        ServiceBusClient.from_connection_string(
            facts(program)["connection_string"], retry_total=0, keep_alive=0
        ) as client,
        client.get_queue_sender("q") as sender,
    ):
        with contextlib.suppress(ServiceBusError):
            for _ in range(100):
                sender.send_messages(pair)
                acknowledged += len(pair)
        _, errors = program.communicate(timeout=60)
    assert program.returncode == 1
    assert "the Service Bus emulator stops: the data file could not be written" in errors
    assert "Traceback" not in errors
    assert acknowledged > 0
    with ServiceBusEmulator(data=tmp_path) as emulator:
        assert emulator.admin.get("q").counts.active == acknowledged


def test_an_administrators_change_that_cannot_be_kept_fails_and_stops_the_emulator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(journal: SqliteJournal) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    failed: Queue[OSError] = Queue()
    with ServiceBusEmulator(data=tmp_path, on_failure=failed.put) as emulator:
        emulator.admin.create("before", QueueDescription())
        monkeypatch.setattr(SqliteJournal, "_write", full)
        with pytest.raises(OSError, match="disk is full"):
            emulator.admin.create("after", QueueDescription())
        assert "disk is full" in str(failed.get(timeout=10))
        with pytest.raises(RuntimeError, match="not running"):
            emulator.admin.queues()
    assert "the Service Bus emulator stops: the data file could not be written" in caplog.text
    monkeypatch.undo()
    with ServiceBusEmulator(data=tmp_path) as emulator:
        assert [info.path for info in emulator.admin.queues()] == ["before"]


def starts(*options: str) -> int:
    return main(["--port", "0", "--http-port", "0", *options])


def test_a_directory_in_use_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ServiceBusEmulator(data=tmp_path):
        assert starts("--data", str(tmp_path)) == 1
    assert f"{tmp_path} is in use by another emulator" in capsys.readouterr().err


def test_a_damaged_file_is_refused_with_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / FILE).write_bytes(b"garbage" * 1000)
    assert starts("--data", str(tmp_path)) == 1
    assert "Move the directory away to start with an empty namespace" in capsys.readouterr().err


def test_rows_that_say_nothing_known_are_refused_as_damage(tmp_path: Path) -> None:
    with ServiceBusEmulator(data=tmp_path) as emulator:
        emulator.admin.create("q", QueueDescription(user_metadata="mark"))
    octets = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(octets.replace(b'"user_metadata"', b'"user_mythdata"'))
    with pytest.raises(OSError, match=r"damaged .*user_mythdata"):
        ServiceBusEmulator(data=tmp_path).start()
    (tmp_path / FILE).write_bytes(octets)
    with ServiceBusEmulator(data=tmp_path) as emulator:
        assert emulator.admin.get("q").description.user_metadata == "mark"


def test_entities_asked_for_again_are_kept_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    for _ in range(2):
        with run(data, "--queue", "q", "--topic", "t=a,b:session") as program:
            facts(program)
            program.terminate()
            _, errors = program.communicate(timeout=60)
        assert (program.returncode, errors) == (0, "")
    assert starts("--data", str(data), "--queue", "q:session") == 1
    assert "'q' is there with other settings (requires_session is False, asked for was True)" in capsys.readouterr().err
