"""Commands of the Azure CLI: made of documented options, with every name filled in, and never with a secret."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import timedelta

import pytest

from common.azure_amqp import refusals
from common.azure_amqp.address import read_address
from common.bus.ports import Storage
from common.check import NOT_KNOWN, Finding, Fix, Outcome, Tool
from common.errors import PermanentError
from common.servicebus.entities import Keeping, QueueFacts, TopicFacts
from common.servicebus.findings import judge_queue, judge_topic
from common.servicebus.remedies.az import IF_EMPTY, Entity, entity_of, granted

QUEUE = Entity("queue", "cdc/ingest", "shop.servicebus.windows.net")
TOPIC = Entity("topic", "prod.shop.persons.events", "shop.servicebus.windows.net")
WORST = Keeping(timedelta(days=1), False, timedelta(days=1), "elsewhere")
Q = QueueFacts(False, None, timedelta(seconds=5), 1, "Disabled", 1, 1, Storage(9, 10), WORST, largest=2**20)
T = TopicFacts(timedelta(minutes=1), "Disabled", Storage(9, 10), (), replace(WORST, forwards_to=None))

_COMMON = {"--resource-group", "--namespace-name", "--name"}
_CHANGED = {"--default-message-time-to-live", "--auto-delete-on-idle", "--duplicate-detection-history-time-window"}
_CHANGED |= {"--status", "--max-size", "--max-message-size"}
_QUEUES = {"--lock-duration", "--max-delivery-count", "--enable-dead-lettering-on-message-expiration"}
DOCUMENTED: dict[str, set[str]] = {
    "servicebus namespace list": {"--query", "--output"},
    "servicebus namespace show": {"--resource-group", "--name", "--query", "--output"},
    "servicebus namespace authorization-rule update": _COMMON | {"--rights"},
    "servicebus queue show": _COMMON | {"--query", "--output"},
    "servicebus topic show": _COMMON | {"--query", "--output"},
    "servicebus queue delete": _COMMON,
    "servicebus topic delete": _COMMON,
    "servicebus queue update": _COMMON | _CHANGED | _QUEUES | {"--remove"},
    "servicebus topic update": _COMMON | _CHANGED | {"--remove"},
    "servicebus queue create": _COMMON | _CHANGED | _QUEUES | {"--enable-session", "--enable-duplicate-detection"},
    "servicebus topic create": _COMMON | _CHANGED | {"--enable-ordering", "--enable-duplicate-detection"},
    "servicebus topic subscription create": _COMMON | {"--topic-name"},
    "servicebus topic subscription list": _COMMON - {"--name"} | {"--topic-name", "--query", "--output"},
    "role assignment create": {"--assignee", "--role", "--scope"},
}
"""https://learn.microsoft.com/cli/azure/servicebus and https://learn.microsoft.com/cli/azure/role/assignment"""


def held_to_the_documentation(fix: Fix) -> None:
    assert fix.tool is Tool.SHELL
    for command in fix.commands:
        inner = command.partition("=$(")[2].removesuffix(")") or command.removeprefix(IF_EMPTY)
        words = shlex.split(inner)
        assert words[0] == "az"
        name = " ".join(word for word in words[1 : next(i for i, w in enumerate(words) if w.startswith("--"))])
        assert {word for word in words if word.startswith("--")} <= DOCUMENTED[name], command


def found() -> list[Finding]:
    def queue(facts: QueueFacts | None) -> list[Finding]:
        return judge_queue("queue", facts, sessions=True, provision="verify", entity=QUEUE)

    def topic(facts: TopicFacts | None) -> list[Finding]:
        return judge_topic("topic", facts, subscriptions=["sub1"], provision="verify", entity=TOPIC, queue=Q)

    short = timedelta(minutes=1)
    some = [*queue(Q), *queue(None), *queue(replace(Q, duplicate_window=short)), *topic(T), *topic(None)]
    return [*some, *topic(replace(T, duplicate_window=None))]


def test_every_finding_has_documented_commands_or_says_why_there_are_none() -> None:
    kinds = set()
    for finding in found():
        assert finding.outcome is not Outcome.OK
        assert finding.fix is not None
        kinds.add(finding.text[:20])
        if finding.fix.tool is None:
            assert finding.fix.because
        else:
            held_to_the_documentation(finding.fix)
    assert len(kinds) >= 15


def test_names_are_filled_in_and_the_resource_group_is_asked_for() -> None:
    [missing] = judge_queue("queue", None, sessions=True, provision="none", entity=QUEUE)
    assert missing.fix is not None
    look, create = missing.fix.commands
    assert look == "group=$(az servicebus namespace list --query \"[?name=='shop'].resourceGroup | [0]\" --output tsv)"
    assert "--resource-group \"$group\" --namespace-name shop --name 'cdc~ingest'" in create
    assert "--enable-session true" in create


def test_what_is_fixed_at_creation_is_made_again_only_while_nothing_waits_in_it() -> None:
    fixed = ("no sessions", "no duplicate detection")
    fixes = {each.fix for each in found() if each.fix is not None and any(text in each.text for text in fixed)}
    assert len(fixes) >= 2, "a queue's and a topic's"
    for fix in fixes:
        _, count, delete, *others = fix.commands
        assert count.startswith("waiting=$(az servicebus ")
        assert "messageCount" in count
        assert delete.removeprefix(IF_EMPTY).split()[3] == "delete"
        assert all(command.startswith(IF_EMPTY) for command in (delete, *others))


@pytest.mark.parametrize("host", ["$(reboot).servicebus.windows.net", "'; reboot;'.servicebus.windows.net"])
def test_a_host_that_a_shell_would_run_has_no_command(host: str) -> None:
    [finding] = judge_queue("queue", None, sessions=True, provision="none", entity=replace(QUEUE, host=host))
    assert finding.fix is not None
    assert finding.fix.commands == ()


def test_an_emulator_has_no_azure_cli() -> None:
    emulator = replace(QUEUE, emulator=True)
    [finding] = judge_queue("queue", None, sessions=True, provision="none", entity=emulator)
    assert finding.fix is not None
    assert (finding.fix.commands, "emulator" in (finding.fix.because or "")) == ((), True)


def lacking(right: str, who: refusals.Credential) -> PermanentError:
    said = refusals.read(f"'{right}' claim(s) are required to perform this operation", who)
    assert said is not None
    return PermanentError(f"opening the sender: {said.text}", hint=said.hint)


@pytest.mark.parametrize(
    ("right", "role"),
    [("Send", "Data Sender"), ("Listen", "Data Receiver"), ("Manage", "Data Owner")],
)
def test_an_identity_gets_the_role_it_lacks(right: str, role: str) -> None:
    fix = granted(QUEUE, lacking(right, refusals.Credential("the identity", policy=False)))
    held_to_the_documentation(fix)
    assert f"--role 'Azure Service Bus {role}'" in fix.commands[-1]


def test_a_policy_gets_the_right_it_lacks_and_the_key_is_not_shown() -> None:
    text = "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=my policy;SharedAccessKey=SECRET"
    fix = granted(entity_of(read_address(text), "queue", "q"), lacking("Send", refusals.UNKNOWN))
    held_to_the_documentation(fix)
    assert "--name 'my policy' --rights Send Listen" in fix.commands[-1]
    assert "SECRET" not in str(fix)


def test_any_other_error_has_no_command() -> None:
    assert granted(QUEUE, PermanentError("the host is not found")) is NOT_KNOWN
