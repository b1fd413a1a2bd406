"""Entities' and rules' descriptions as JSON and back, for the data file.

Durations are integers of microseconds; values of rules' parameters that JSON has no form for are an object of one member
that names their type. What was left out gets its default: settings are only ever added. Refuses a setting, a kind or a
type it does not know (ValueError): the file is of a newer emulator or damaged, and a guess would change an entity.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, get_type_hints
from uuid import UUID

from emulators.servicebus.description import Description, QueueDescription, SubscriptionDescription, TopicDescription
from emulators.servicebus.rules.description import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    PropertyValue,
    RuleDescription,
    SqlAction,
    SqlFilter,
    TrueFilter,
)

_MICROSECOND: Final = timedelta(microseconds=1)
_ENTITIES: Final[dict[str, type[Description]]] = {
    "queue": QueueDescription,
    "topic": TopicDescription,
    "subscription": SubscriptionDescription,
}
_FILTERS: Final[dict[str, type[Filter]]] = {
    "true": TrueFilter,
    "false": FalseFilter,
    "sql": SqlFilter,
    "correlation": CorrelationFilter,
}
_VALUE_MAPPINGS: Final = ("parameters", "properties")
_READERS: Final[dict[str, Callable[[Any], PropertyValue]]] = {
    "bytes": bytes.fromhex,
    "datetime": datetime.fromisoformat,
    "timedelta": lambda count: int(count) * _MICROSECOND,
    "uuid": UUID,
}


def entity_to_json(description: Description) -> str:
    """The settings of an entity."""
    facts = {
        name: value // _MICROSECOND if isinstance(value, timedelta) else value
        for name, value in _members(description).items()
    }
    return json.dumps({"kind": _name_of(_ENTITIES, description), **facts})


def entity_from_json(text: str) -> Description:
    """Raises ValueError."""
    facts = _object(json.loads(text))
    cls = _kind(_ENTITIES, facts)
    durations = {name for name, hint in get_type_hints(cls).items() if hint is timedelta}
    made: Description = cls(
        **{name: value * _MICROSECOND if name in durations else value for name, value in _known(cls, facts).items()}
    )
    return made


def rule_to_json(description: RuleDescription) -> str:
    """A rule's filter and action."""
    rule_filter = {"kind": _name_of(_FILTERS, description.filter), **_with_values(description.filter)}
    action = None if description.action is None else _with_values(description.action)
    return json.dumps({"filter": rule_filter, "action": action})


def rule_from_json(text: str) -> RuleDescription:
    """Raises ValueError."""
    facts = _known(RuleDescription, _object(json.loads(text)))
    about_filter = _object(facts["filter"])
    rule_filter = _restored(_kind(_FILTERS, about_filter), about_filter)
    action = None if facts["action"] is None else _restored(SqlAction, _object(facts["action"]))
    return RuleDescription(rule_filter, action)


def _with_values(part: Filter | SqlAction) -> dict[str, Any]:
    return {
        name: {key: _value_to_json(item) for key, item in value.items()} if name in _VALUE_MAPPINGS else value
        for name, value in _members(part).items()
    }


def _restored(cls: type, facts: Mapping[str, Any]) -> Any:
    return cls(
        **{
            name: {key: _value_from_json(item) for key, item in _object(value).items()}
            if name in _VALUE_MAPPINGS
            else value
            for name, value in _known(cls, facts).items()
        }
    )


def _value_to_json(value: PropertyValue) -> Any:
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, datetime):
        return {"datetime": value.isoformat()}
    if isinstance(value, timedelta):
        return {"timedelta": value // _MICROSECOND}
    if isinstance(value, UUID):
        return {"uuid": str(value)}
    raise ValueError(f"a {type(value).__name__} is no value of a rule")


def _value_from_json(value: Any) -> PropertyValue:
    if not isinstance(value, dict):
        plain: PropertyValue = value
        return plain
    [(kind, form)] = value.items()
    if kind not in _READERS:
        raise ValueError(f"a {kind!r} is no value of a rule")
    return _READERS[kind](form)


def _members(instance: Any) -> dict[str, Any]:
    return {field.name: getattr(instance, field.name) for field in dataclasses.fields(instance)}


def _name_of(kinds: Mapping[str, type], instance: object) -> str:
    return next(name for name, cls in kinds.items() if type(instance) is cls)


def _kind(kinds: Mapping[str, type[Any]], facts: Mapping[str, Any]) -> type[Any]:
    cls = kinds.get(str(facts.get("kind")))
    if cls is None:
        raise ValueError(f"{facts.get('kind')!r} is none of {', '.join(kinds)}")
    return cls


def _known(cls: type, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts but their kind. Raises ValueError when one of them is no member of the class."""
    told = {name: value for name, value in facts.items() if name != "kind"}
    unknown = told.keys() - {field.name for field in dataclasses.fields(cls)}
    if unknown:
        raise ValueError(f"{cls.__name__} knows no {', '.join(sorted(unknown))}")
    return told


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is no object")
    return value
