"""Commands of the Azure CLI that correct a queue, a topic or a right. Pure text: nothing is run here.

https://learn.microsoft.com/cli/azure/servicebus
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from common.azure_amqp.address import ServiceBusAddress
from common.bus.shapes import STANDARD_MEGABYTES
from common.check import NOT_KNOWN, Fix, by_hand, by_shell
from common.errors import DStreamError

ROLES: dict[str, str] = {
    "Send": "Azure Service Bus Data Sender",
    "Listen": "Azure Service Bus Data Receiver",
    "Manage": "Azure Service Bus Data Owner",
}

FOR_EVER = "P10675199DT2H48M5.4775807S"
"""What the service takes for no limit."""

IF_EMPTY = '[ "$waiting" = 0 ] && '
"""Before what deletes messages: the commands are pasted, perhaps long after the check."""

_LABEL = re.compile(r"[A-Za-z0-9-]+")
_LACKS = re.compile(r"lacks the right (Send|Listen|Manage)\b")
_EMULATOR = by_hand("an emulator has no Azure CLI: delete the entity there, or change the emulator's own configuration")
_UNKNOWN_NAME = by_hand("the configuration's address does not begin with the name of a namespace")


@dataclass(frozen=True, slots=True)
class Entity:
    """`host`: of its namespace. `policy`: the name of the key that is used; None for an identity. `emulator`: not one of Azure's."""

    kind: Literal["queue", "topic"]
    name: str
    host: str
    policy: str | None = None
    emulator: bool = False


def entity_of(address: ServiceBusAddress, kind: Literal["queue", "topic"], name: str) -> Entity:
    return Entity(kind, name, address.hostname, address.policy, emulator=address.emulator)


def updated(entity: Entity, *options: str) -> Fix:
    """Settings that can be changed at any time."""
    return _az(entity, f"az servicebus {entity.kind} update {_place(entity)} {' '.join(options)}")


def created(entity: Entity, *, sessions: bool = False, subscriptions: Sequence[str] = ()) -> Fix:
    """As DStream itself would create it, with a size that each tier takes."""
    shape = f"--enable-duplicate-detection true --max-size {STANDARD_MEGABYTES}"
    if entity.kind == "queue":
        shape += f" --enable-session {str(sessions).lower()} --enable-dead-lettering-on-message-expiration true"
    else:
        shape += " --enable-ordering true"
    made = f"az servicebus {entity.kind} create {_place(entity)} {shape}"
    return _az(entity, made, *(_subscription(entity, name) for name in subscriptions))


def made_again(entity: Entity, *, sessions: bool = False, subscriptions: Sequence[str] = ()) -> Fix:
    """For what is fixed when an entity is created. Deletes nothing while messages wait in it, dead letters included."""
    again = created(entity, sessions=sessions, subscriptions=subscriptions)
    if not again.commands:
        return again
    look, *rest = again.commands
    commands = (f"az servicebus {entity.kind} delete {_place(entity)}", *rest)
    return by_shell(look, f"waiting=$({_counted(entity)} --output tsv)", *(f"{IF_EMPTY}{each}" for each in commands))


def _counted(entity: Entity) -> str:
    if entity.kind == "queue":
        return f"az servicebus queue show {_place(entity)} --query messageCount"
    topic = f"--topic-name {_quoted(_in_resource_manager(entity.name))}"
    return f'az servicebus topic subscription list {_namespace(entity)} {topic} --query "sum([].messageCount)"'


def subscribed(entity: Entity, *names: str) -> Fix:
    return _az(entity, *(_subscription(entity, name) for name in names))


def without(entity: Entity, setting: str) -> Fix:
    """Remove a setting that has no empty value."""
    return _az(entity, f"az servicebus {entity.kind} update {_place(entity)} --remove {setting}")


def granted(entity: Entity, error: DStreamError) -> Fix:
    """For an error that says which right is missing (refusals.py); any other has no command."""
    found = _LACKS.search(error.message)
    return NOT_KNOWN if found is None else _granted(entity, found[1])


def _granted(entity: Entity, right: str) -> Fix:
    whole = right == "Manage"
    if entity.policy is not None:
        rights = "Manage Send Listen" if whole else "Send Listen"  # the list replaces the present one
        rule = f"az servicebus namespace authorization-rule update {_namespace(entity)} --name {_quoted(entity.policy)} --rights {rights}"
        return _az(entity, rule)
    shown = (
        f'az servicebus namespace show --resource-group "$group" --name {_label(entity)}'
        if whole
        else f"az servicebus {entity.kind} show {_place(entity)}"
    )
    return _az(
        entity,
        f"scope=$({shown} --query id --output tsv)",
        f'az role assignment create --assignee "$AZURE_CLIENT_ID" --role {_quoted(ROLES[right])} --scope "$scope"',
    )


def iso(time: timedelta) -> str:
    return f"PT{round(time.total_seconds())}S"


def _az(entity: Entity, *commands: str) -> Fix:
    if entity.emulator:
        return _EMULATOR
    if not _LABEL.fullmatch(_label(entity)):
        return _UNKNOWN_NAME
    query = f"[?name=='{_label(entity)}'].resourceGroup | [0]"
    look = f'group=$(az servicebus namespace list --query "{query}" --output tsv)'
    return by_shell(look, *commands)


def _subscription(entity: Entity, name: str) -> str:
    topic = f"--topic-name {_quoted(_in_resource_manager(entity.name))}"
    return f"az servicebus topic subscription create {_namespace(entity)} {topic} --name {_quoted(name)}"


def _place(entity: Entity) -> str:
    return f"{_namespace(entity)} --name {_quoted(_in_resource_manager(entity.name))}"


def _namespace(entity: Entity) -> str:
    return f'--resource-group "$group" --namespace-name {_label(entity)}'


def _label(entity: Entity) -> str:
    return entity.host.partition(".")[0]


def _in_resource_manager(name: str) -> str:
    return name.replace("/", "~")


def _quoted(text: str) -> str:
    return shlex.quote(text)
