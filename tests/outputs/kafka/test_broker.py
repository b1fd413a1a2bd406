"""What is Kafka's own: keys and partitions, tombstones, refusals of each kind, rights, topics, and senders that share a producer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from common.bus.ports import MessageRefused, MessageTooLarge, OutOfTime, SendInterrupted
from common.check import Outcome
from common.errors import EntityMissing, EntityUnavailable, PermanentError
from common.in_time import begun, in_time
from common.message import Message
from common.names import TableName
from router.envelopes.debezium import Debezium
from router.envelopes.sender import ConvertingSender
from router.outputs.kafka.output import KafkaOutput
from router.outputs.port import Stream
from tests.outputs.contract.delivery import MERCY, compared, deliver
from tests.outputs.contract.world import change, session
from tests.outputs.kafka.world import LIMIT, PASSWORDS, ROUTER, WRITER, KafkaWorld, headers, key, settings
from tests.unit.router.envelopes.golden import native


@pytest.fixture(scope="module")
def world() -> Iterator[KafkaWorld]:
    with KafkaWorld() as world:
        yield world


@pytest.fixture
def outputs(world: KafkaWorld) -> Iterator[Any]:
    """Makes outputs that are closed at the end."""
    made: list[KafkaOutput] = []

    def make(timeout: float = 30, **given: Any) -> KafkaOutput:
        made.append(KafkaOutput(settings(world.relay.port, timeout, **given)))
        return made[-1]

    yield make
    for each in made:
        in_time(MERCY, each.close)


def configure(world: KafkaWorld, topic: str, values: Mapping[str, str]) -> None:
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in values.items()]
    admin = world.broker.admin()
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(MERCY)


def murmur2(data: bytes) -> int:
    """As Java's producers have it (org.apache.kafka.common.utils.Utils.murmur2), unsigned."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)


def test_a_session_has_the_partition_that_java_would_choose(world: KafkaWorld, outputs: Any) -> None:
    stream = world.place(partitions=7)
    sent = [change(stream, number, session(stream, number % 20)) for number in range(200)]
    outputs().sender(stream).send(sent)
    read = world.broker.read(stream.destination)
    assert len(read) == 200
    assert {each.partition() for each in read} > {0, 1}
    for each in read:
        assert each.partition() == (murmur2((key(each) or "").encode()) & 0x7FFFFFFF) % 7


def test_rows_have_their_own_keys_and_tombstones_no_value(world: KafkaWorld, outputs: Any) -> None:
    table = TableName("sales", "Orders")
    stream = Stream("server.shop.sales.orders.events", table, "tombstones")
    world.broker.create("tombstones", config={"cleanup.policy": "compact"})
    output = outputs(key="row", keys={"sales.Orders": ["Order Id"]}, envelope="debezium", tombstones=True)
    sender = ConvertingSender("tombstones", output.sender(stream), Debezium(tombstones=True), "debezium")
    sender.send([native("delete_in_another_schema")])
    deleted, tombstone = world.broker.read("tombstones")
    assert key(deleted) == key(tombstone) == '{"Order Id":7}'
    assert (deleted.value() is None, tombstone.value()) == (False, None)
    assert headers(tombstone)["message_id"] == headers(deleted)["message_id"] + ":tombstone"


def test_a_table_without_keys_is_held_up_and_the_check_says_so(world: KafkaWorld, outputs: Any) -> None:
    stream = world.place()
    output = outputs(key="row", keys={"Others": ["ID"]})
    with pytest.raises(EntityUnavailable, match="keys does not name the table"):
        output.sender(stream).send([change(stream, 1, None)])
    wrong = outputs(key="row", keys={str(stream.table): ["Nummer"]})
    with pytest.raises(EntityUnavailable, match="no column Nummer"):
        wrong.sender(stream).send([change(stream, 1, None)])
    assert world.arrived(stream) == []
    assert [each.subject for each in output.findings([stream], provision="none") if each.outcome is Outcome.FAIL] == [
        str(stream.table)
    ]


def test_a_limit_that_the_user_may_not_see(world: KafkaWorld, outputs: Any) -> None:
    """Batches are refused as a whole, and the message at fault is found."""
    stream = world.place()
    sender = outputs(username=WRITER).sender(stream)
    one = session(stream, 0)
    sent = [change(stream, number, one, size=60_000) for number in range(12)]
    sender.send(sent[:9])  # 560 KB: more than the limit together, and none of them alone
    bad = change(stream, 100, one, size=LIMIT + 5_000)
    with pytest.raises(MessageTooLarge) as raised:
        sender.send([*sent[9:11], bad, sent[11]])
    assert raised.value.at == 2
    assert raised.value.accepted == {0, 1}
    assert "max.message.bytes" in raised.value.message
    sender.send(sent[11:])
    found = compared(sent, world.arrived(stream))
    assert (found.lost, found.disordered, found.foreign) == ([], [], [])


def test_librdkafka_itself_would_go_on_behind_a_refused_batch(world: KafkaWorld) -> None:
    """Why the producer has `enable.gapless.guarantee`: without it, what is behind a refused batch is accepted."""
    stream = world.place()
    told = {"bootstrap.servers": world.broker.own_address, "enable.idempotence": True, "batch.num.messages": 5}
    producer = Producer({**told, "message.max.bytes": 1_000_000_000, "linger.ms": 20, "log_level": 0})
    answers: list[str] = []
    for number in range(20):
        value = b"x" * (LIMIT + 5_000 if number == 2 else 100)

        def report(error: Any, message: Any, number: int = number) -> None:
            answers.append(f"{number}: {'accepted' if error is None else error.name()}")

        producer.produce(stream.destination, value, b"key", on_delivery=report)
    producer.flush(MERCY)
    assert answers[2] == "2: MSG_SIZE_TOO_LARGE"
    assert "6: accepted" in answers


def test_a_record_that_a_broker_refuses_as_invalid(world: KafkaWorld, outputs: Any) -> None:
    stream = world.place(cleanup_policy="compact")
    sender = outputs().sender(stream)
    sent = [change(stream, number, session(stream, 0)) for number in range(4)]
    bad = change(stream, 100, None)
    with pytest.raises(MessageRefused) as raised:
        sender.send([*sent[:2], bad, *sent[2:]])
    assert (raised.value.at, raised.value.by_entity) == (2, True)
    assert {0, 1} <= raised.value.accepted
    sender.send(sent[2:])
    assert compared(sent, world.arrived(stream)).disordered == []


def test_a_topic_in_doubt_does_not_interrupt_another(world: KafkaWorld, outputs: Any) -> None:
    """A send that runs out of time ends the producer that both share, and the other one has its own accepted before."""
    doubtful, well = world.place(), world.place()
    output = outputs()

    def doubt() -> int:
        sender, ended, patience = output.sender(doubtful), 0, 0.002
        sender.open()
        for number in range(100):
            end = time.monotonic() + patience
            try:
                sender.send(
                    [change(doubtful, number, session(doubtful, 0))], left=lambda end=end: end - time.monotonic()
                )
                patience /= 2  # the broker was in time: a faster machine needs less
            except OutOfTime:
                ended += 1
            if ended == 6:
                break
        return ended

    doubting = begun(doubt, name="doubtful")
    sender, sent, interruptions = output.sender(well), list[Message](), list[object]()
    while not doubting.done():
        more = [change(well, len(sent) + number, session(well, 0)) for number in range(20)]
        interruptions += deliver(sender, more, chunk=20).interruptions
        sent += more
    assert doubting.result() == 6
    assert interruptions == []
    found = compared(sent, world.arrived(well))
    assert (found.lost, found.disordered) == ([], [])


def test_refused_messages_of_one_topic_do_not_interrupt_another(world: KafkaWorld, outputs: Any) -> None:
    refusing, well = world.place(cleanup_policy="compact"), world.place()
    output = outputs()

    def refuse() -> None:
        sender = output.sender(refusing)
        for number in range(6):
            with pytest.raises(MessageRefused):
                sender.send([change(refusing, number, None)])

    refused = begun(refuse, name="refused")
    sender, sent, interruptions = output.sender(well), list[Message](), list[object]()
    while not refused.done():
        more = [change(well, len(sent) + number, session(well, 0)) for number in range(20)]
        interruptions += deliver(sender, more, chunk=20).interruptions
        sent += more
    refused.result()
    assert interruptions == []
    found = compared(sent, world.arrived(well))
    assert (found.lost, found.disordered) == ([], [])


def test_a_topic_that_is_deleted_and_created_again(world: KafkaWorld, outputs: Any) -> None:
    stream = world.place()
    output = outputs(6)
    sender = output.sender(stream)
    sender.send([change(stream, 0, session(stream, 0))])
    admin = world.broker.admin()
    for future in admin.delete_topics([stream.destination]).values():
        future.result(MERCY)
    end = time.monotonic() + MERCY
    while True:
        assert time.monotonic() < end
        try:
            sender.send([change(stream, 1, session(stream, 0))])
        except EntityMissing:
            break
        except SendInterrupted:
            continue
    assert (
        stream.destination not in admin.list_topics(timeout=MERCY).topics
    )  # although the broker creates topics by the way
    assert list(output.provision([stream], how="create")) == []
    end = time.monotonic() + MERCY
    while True:  # until the producer has heard of it, as a publisher tries again
        try:
            deliver(sender, [change(stream, 2, session(stream, 0))])
            break
        except EntityMissing:
            assert time.monotonic() < end
            time.sleep(0.2)
    assert len(world.arrived(stream)) == 1


def test_routers_that_create_the_same_topics_at_once(world: KafkaWorld, outputs: Any) -> None:
    streams = [world.nowhere() for _ in range(20)]
    given = {"partitions": 4, "topic_config": {"retention.ms": "86400000"}}
    racing = [begun(lambda: outputs(**given).provision(streams, how="create"), name="router") for _ in range(3)]
    assert [list(each.result(MERCY)) for each in racing] == [[], [], []]
    found = world.broker.admin().list_topics(timeout=MERCY).topics
    assert {len(found[each.destination].partitions) for each in streams} == {4}


def test_a_user_without_the_right_to_create(world: KafkaWorld, outputs: Any) -> None:
    output = outputs(username="reader")
    with pytest.raises(PermanentError) as raised:
        output.provision([world.nowhere()], how="create")
    assert "dstream plan" in (raised.value.hint or "")


def test_a_wrong_password_is_reported_at_once_and_never_shown(world: KafkaWorld, outputs: Any) -> None:
    stream = world.place()
    output = outputs(password="wrong-Password-3", client={"debug": "security,broker"})
    began = time.monotonic()
    with pytest.raises(EntityUnavailable) as raised:
        output.sender(stream).send([change(stream, 1, None)])
    assert time.monotonic() - began < 25  # it waits for no timeout
    assert "username" in (raised.value.hint or "")
    assert "wrong-Password-3" not in str(raised.value) + repr(raised.value.__cause__)
    assert PASSWORDS[ROUTER] not in str(raised.value)


def test_findings_of_a_topic_that_would_lose_changes(world: KafkaWorld, outputs: Any) -> None:
    compacted, small = world.place(cleanup_policy="compact"), world.place()
    configure(world, small.destination, {"max.message.bytes": "10000"})
    found = {each.subject: each for each in outputs().findings([compacted, small], provision="verify")}
    assert found[f"topic {compacted.destination}"].outcome is Outcome.FAIL
    assert found[f"topic {small.destination}"].outcome is Outcome.WARN


def test_headers_and_messages_without_a_session(world: KafkaWorld, outputs: Any) -> None:
    stream = world.place(partitions=1)
    message: Message = change(stream, 1, None)
    outputs(compression="zstd").sender(stream).send([message])
    (read,) = world.broker.read(stream.destination)
    assert key(read) is None
    assert headers(read)["message_id"] == message.message_id
    assert headers(read)["table"] == "Persons" + stream.destination.rpartition("Persons")[2]
    assert headers(read)["content-type"] == "application/json"
