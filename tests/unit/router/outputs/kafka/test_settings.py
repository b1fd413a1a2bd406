"""The settings of the output, and what librdkafka is told: nothing in a configuration can take the promise away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from common.names import Origin, TableName
from router.outputs.kafka.client_settings import TUNING, refused_setting
from router.outputs.kafka.configuration import of_client, of_producer
from router.outputs.kafka.settings import TOPIC_LIMIT, KafkaOutputSettings

ORIGIN = Origin("server", "shop")


def settings(**given: Any) -> KafkaOutputSettings:
    return KafkaOutputSettings(**{"bootstrap_servers": "one:9092, two:9093", **given})


def refused(**given: Any) -> str:
    with pytest.raises(ValidationError) as raised:
        settings(**given)
    return str(raised.value)


def test_servers_are_text_or_a_list() -> None:
    assert settings().where == "one:9092,two:9093"
    assert settings(bootstrap_servers=["[::1]:9092"]).where == "[::1]:9092"
    assert settings(bootstrap_servers=("one:9092", "two:9093")).where == settings().where, "as a file's list is read"


@pytest.mark.parametrize("servers", ["", [], "kafka://one:9092", "one:9092,,two:9092", 9092, ["one 9092"]])
def test_other_servers_are_refused(servers: object) -> None:
    assert "HOST:PORT" in refused(bootstrap_servers=servers)


def test_each_table_has_a_topic_of_its_own() -> None:
    names = [
        TableName("dbo", "Persons"),
        TableName("dbo", "Order Details"),
        TableName("a.b", "c"),
        TableName("a", "b.c"),
    ]
    places = [settings().place(ORIGIN, ORIGIN.topic(each), each) for each in names]
    assert places[:2] == ["server.shop.dbo.Persons", "server.shop.dbo.Order_x0020_Details"]
    assert len(set(places)) == len(names)
    long = settings().place(ORIGIN, "topic", TableName("ś" * 100, "t" * 100))
    assert len(long) == TOPIC_LIMIT
    assert long.isascii()


@pytest.mark.parametrize(
    "name",
    [
        "acks",
        "test.mock.num.brokers",
        "Enable.SSL.certificate.verification",
        "ssl.endpoint.identification.algorithm",
        "ACKS",
        "request.required.acks",
        "enable.idempotence",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "retries",
        "message.send.max.retries",
        "message.timeout.ms",
        "delivery.timeout.ms",
        "transactional.id",
        "partitioner",
        "allow.auto.create.topics",
        "bootstrap.servers",
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "sasl.oauthbearer.client.secret",
        "ssl.key.pem",
        "plugin.library.paths",
        "error_cb",
        "logger",
        "ssl.engine.location",
        "ssl.engine.id",
        "ssl.providers",
        "ssl.crl.location",
        "ssl.keystore.location",
        "ssl.ca.certificate.stores",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.keytab",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.method",
        "https.ca.location",
        "enable.random.seed",
        "internal.termination.signal",
        "lingerms",
        "Linger.ms",
        " linger.ms",
    ],
)
def test_a_client_setting_that_breaks_the_promise_is_refused_by_name(name: str) -> None:
    assert refused_setting(name) is not None
    assert name in refused(client={name: "1"})


def test_librdkafka_knows_every_setting_that_tunes_it() -> None:
    kafka = pytest.importorskip("confluent_kafka")
    unknown = []
    for name in sorted(TUNING):
        try:
            kafka.Producer({name: "no such value", "bootstrap.servers": "localhost:1"})
        except kafka.KafkaException as error:
            unknown += [name] if "No such configuration" in str(error) else []
    assert unknown == []
    assert [refused_setting(name) for name in TUNING] == [None] * len(TUNING)


def test_other_client_settings_pass_and_numbers_are_written_as_kafka_does() -> None:
    given = settings(client={"linger.ms": 20, "socket.nagle.disable": True, "client.rack": "a"})
    told = of_producer(given)
    assert (told["linger.ms"], told["socket.nagle.disable"], told["client.rack"]) == ("20", "true", "a")
    assert "linger.ms" not in of_client(given)  # librdkafka would warn: it is a producer's


def test_what_the_producer_is_told() -> None:
    told = of_producer(settings(timeout=timedelta(seconds=30), compression="zstd"))
    promise = {
        "acks": "all",
        "enable.idempotence": True,
        "enable.gapless.guarantee": True,
        "max.in.flight.requests.per.connection": 1,
        "message.timeout.ms": 0,
        "partitioner": "murmur2_random",
        "allow.auto.create.topics": False,
        "compression.type": "zstd",
        "security.protocol": "ssl",
    }
    assert {name: told[name] for name in promise} == promise
    assert told["request.timeout.ms"] < told["socket.timeout.ms"] < 30_000


def test_signing_in() -> None:
    password = SecretStr("very-Secret-1")
    plain = of_client(settings(tls=False, username="me", password=password, sasl_mechanism="SCRAM-SHA-256"))
    assert (plain["security.protocol"], plain["sasl.mechanism"]) == ("sasl_plaintext", "SCRAM-SHA-256")
    assert (plain["sasl.username"], plain["sasl.password"]) == ("me", "very-Secret-1")
    by_certificate = of_client(settings(ca_file="ca.pem", certificate_file="me.pem", key_password=SecretStr("k")))
    assert by_certificate["security.protocol"] == "ssl"
    assert by_certificate["ssl.key.location"] == by_certificate["ssl.certificate.location"] == "me.pem"
    assert by_certificate["ssl.endpoint.identification.algorithm"] == "https"


def test_no_secret_is_shown() -> None:
    given = settings(username="me", password=SecretStr("very-Secret-1"))
    assert "very-Secret-1" not in repr(given) + str(given)
    assert given.secrets == ("very-Secret-1",)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"username": "me"}, "username without password"),
        ({"password": SecretStr("x")}, "password without username"),
        ({"key_file": "k.pem"}, "without certificate_file"),
        ({"tls": False, "ca_file": "ca.pem"}, "needs tls = true"),
        ({"key": "row"}, "without keys"),
        ({"topic_config": {"cleanup.policy": "compact,delete"}}, "only the last change of each session"),
        ({"partitions": 0}, "partitions"),
        ({"keys": {"Persons": []}, "key": "row"}, "must be a list of different column names"),
    ],
)
def test_contradictions_are_refused(given: dict[str, Any], complaint: str) -> None:
    assert complaint in refused(**given)


def test_compaction_by_row_is_allowed() -> None:
    given = settings(key="row", keys={"Persons": ["ID"]}, topic_config={"cleanup.policy": "compact"})
    assert given.key_of(TableName("DBO", "persons")) == ("ID",)
    assert given.key_of(TableName("sales", "Persons")) is None


def test_settings_without_effect_are_named() -> None:
    given = settings(keys={"Persons": ["ID"]}, sasl_mechanism="PLAIN", tombstones=True)
    assert [name for name, _ in given.without_effect] == ["tombstones", "keys", "sasl_mechanism"]


def test_files_that_cannot_be_used_are_named(tmp_path: Any) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    found = settings(ca_file=str(tmp_path / "ca.pem")).unusable_file()
    assert found is not None
    assert found[0] == "ca_file"
    missing = settings(certificate_file=str(tmp_path / "missing.pem")).unusable_file()
    assert missing is not None
    assert missing[0] == "certificate_file"
    assert settings().unusable_file() is None
