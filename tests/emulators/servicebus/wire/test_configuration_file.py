"""`--config FILE`: a file in the form of Microsoft's emulator makes the namespace, or is refused with every mistake named."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import CorrelationRuleFilter, ServiceBusAdministrationClient, SqlRuleFilter

from emulators.servicebus.__main__ import main
from emulators.servicebus.description import EntityMissing, InvalidEntity
from emulators.servicebus.provisioning.configuration import read_configuration
from emulators.servicebus.provisioning.provision import provide_all
from emulators.servicebus.server import ServiceBusEmulator
from tests.emulators.servicebus.wire.administration import PlainHttp

NORTH = {
    "Name": "of-north",
    "Properties": {"FilterType": "Correlation", "CorrelationFilter": {"Properties": {"region": "north"}}},
}
LARGE = {
    "Name": "large",
    "Properties": {
        "FilterType": "Sql",
        "SqlFilter": {"SqlExpression": "size > 10"},
        "Action": {"SqlExpression": "SET class = 'L'"},
    },
}
TOPIC = {
    "Name": "events",
    "Properties": {"DefaultMessageTimeToLive": "PT30M", "RequiresDuplicateDetection": True},
    "Subscriptions": [
        {"Name": "all", "Properties": {"RequiresSession": False, "LockDuration": "PT30S"}},
        {"Name": "some", "Properties": {"MaxDeliveryCount": 7}, "Rules": [NORTH, LARGE]},
    ],
}
QUEUE = {"Name": "orders", "Properties": {"LockDuration": "PT2M", "RequiresSession": True, "ForwardTo": ""}}

NO_DURATION = "is not an ISO 8601 duration of days, hours, minutes and seconds, as PT1M30S is"


def document(*queues: dict[str, Any], topics: list[Any] | None = None) -> str:
    namespace = {"Name": "sbemulatorns", "Queues": list(queues), "Topics": topics or []}
    return json.dumps({"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "File"}}})


def write(directory: Path, text: str) -> str:
    path = directory / "Config.json"
    path.write_text(text, "utf-8")
    return str(path)


def test_the_file_makes_the_namespace(tmp_path: Path) -> None:
    config = write(tmp_path, document(QUEUE, topics=[TOPIC]))
    command = [sys.executable, "-m", "emulators.servicebus", "--port", "0", "--http-port", "0", "--json"]
    with subprocess.Popen(
        [*command, "--config", config], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        facts = json.loads(program.stdout.readline())
        with (
            ServiceBusClient.from_connection_string(facts["connection_string"], keep_alive=0) as client,
            client.get_topic_sender("events") as sender,
        ):
            sender.send_messages(ServiceBusMessage("a", application_properties={"region": "north", "size": 11}))
            sender.send_messages(ServiceBusMessage("b", application_properties={"region": "south", "size": 1}))
        at_http = facts["connection_string"].replace(f":{facts['port']};", f":{facts['http_port']};")
        with ServiceBusAdministrationClient.from_connection_string(at_http, transport=PlainHttp()) as admin:
            queue = admin.get_queue("orders")
            assert (queue.requires_session, queue.lock_duration) == (True, timedelta(minutes=2))
            assert (queue.max_delivery_count, queue.default_message_time_to_live) == (3, timedelta(hours=1))
            rules = {rule.name: type(rule.filter) for rule in admin.list_rules("events", "some")}
            assert rules == {"of-north": CorrelationRuleFilter, "large": SqlRuleFilter}
            counts = {
                name: admin.get_subscription_runtime_properties("events", name).active_message_count
                for name in ("all", "some")
            }
            assert counts == {"all": 2, "some": 2}  # of "a" the plain copy and the one the action changed
        program.send_signal(signal.SIGTERM)
        _, errors = program.communicate(timeout=60)
    assert (program.returncode, errors) == (0, "")


def test_every_mistake_is_told_with_file_and_path_and_nothing_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {"Name": "orders", "Properties": {"LockDuration": "soon", "MaxDeliverCount": 3}}
    config = write(tmp_path, document(wrong))

    assert main(["--config", config]) == 2

    where = "UserConfig.Namespaces[0].Queues[0].Properties"
    assert capsys.readouterr().err.splitlines() == [
        "reading the configuration:",
        f"{config}: {where}: the key 'MaxDeliverCount' is not known; did you mean 'MaxDeliveryCount'?",
        f"{config}: {where}.LockDuration: the value 'soon' {NO_DURATION}",
    ]


@pytest.mark.parametrize(
    ("content", "complaint"), [(None, "No such file"), (b"\xff\xfe", "can't decode"), (b"{", "this is not JSON")]
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, complaint: str
) -> None:
    config = tmp_path / "Config.json"
    if content is not None:
        config.write_bytes(content)
    assert main(["--config", str(config)]) == 2
    errors = capsys.readouterr().err
    assert str(config) in errors
    assert complaint in errors


def test_the_same_file_again_changes_nothing_and_other_rules_are_refused() -> None:
    with ServiceBusEmulator() as emulator:
        provide_all(emulator.admin, read_configuration(document(QUEUE, topics=[TOPIC])))
        provide_all(emulator.admin, read_configuration(document(QUEUE, topics=[TOPIC])))
        emulator.admin.delete_rule("events/Subscriptions/some", "large")
        with pytest.raises(
            InvalidEntity, match=r"Subscriptions\[1\]: 'events/Subscriptions/some' is there with other rules"
        ):
            provide_all(emulator.admin, read_configuration(document(QUEUE, topics=[TOPIC])))
        with pytest.raises(EntityMissing):
            emulator.admin.rule("events/Subscriptions/some", "$Default")
