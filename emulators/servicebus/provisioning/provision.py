"""Entities asked for at the start: made, or kept when the data directory has them already with the same settings.

Refuses to start over an entity that is there with other settings or rules: it is neither changed nor taken for what was asked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from emulators.servicebus.description import Description, EntityAdmin, EntityExists, EntityMissing, InvalidEntity
from emulators.servicebus.rules.description import DEFAULT_RULE, RuleDescription

_FIRST_RULES = {DEFAULT_RULE.lower(): RuleDescription()}


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """An entity asked for. `where` says by what, for people; a subscription without rules keeps `$Default`."""

    where: str
    path: str
    description: Description
    rules: Mapping[str, RuleDescription] = dataclasses.field(default_factory=dict)


def provide_all(admin: EntityAdmin, asked: Iterable[Asked]) -> None:
    """In the order given. Raises InvalidEntity, which says by what the entity was asked for."""
    for entity in asked:
        try:
            provide(admin, entity.path, entity.description)
            if entity.rules:
                _provide_rules(admin, entity.path, entity.rules)
        except (InvalidEntity, EntityMissing) as error:
            raise InvalidEntity(f"{entity.where}: {error}") from error


def provide(admin: EntityAdmin, path: str, description: Description) -> None:
    """Create an entity unless an equal one is there. Raises EntityMissing, InvalidEntity (the text says what differs)."""
    try:
        admin.create(path, description)
    except EntityExists:
        _require_equal(path, admin.get(path).description, description)


def _require_equal(path: str, there: Description, asked: Description) -> None:
    if type(there) is not type(asked):
        raise InvalidEntity(f"'{path}' is there as a {_kind(there)}, and a {_kind(asked)} was asked for")
    differences = [
        f"{field.name} is {getattr(there, field.name)}, asked for was {getattr(asked, field.name)}"
        for field in dataclasses.fields(asked)
        if getattr(there, field.name) != getattr(asked, field.name)
    ]
    if differences:
        raise InvalidEntity(
            f"'{path}' is there with other settings ({'; '.join(differences)}): ask for what is there, do not ask for it, "
            "or change it through the management API"
        )


def _provide_rules(admin: EntityAdmin, subscription: str, rules: Mapping[str, RuleDescription]) -> None:
    there = {rule.name.lower(): rule.description for rule in admin.rules(subscription)}
    asked = {name.lower(): rule for name, rule in rules.items()}
    if there == asked:
        return
    if there != _FIRST_RULES:
        raise InvalidEntity(
            f"'{subscription}' is there with other rules ({', '.join(sorted(there)) or 'none'}): ask for what is there, "
            "do not ask for it, or change it through the management API"
        )
    admin.delete_rule(subscription, DEFAULT_RULE)
    for name, rule in rules.items():
        admin.create_rule(subscription, name, rule)


def _kind(description: Description) -> str:
    return type(description).__name__.removesuffix("Description").lower()
