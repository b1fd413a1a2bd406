"""Entities asked for at the start: made, or kept when the data directory has them already with the same settings.

Refuses to start over an entity that is there with other settings: it is neither changed nor taken for what was asked.
"""

from __future__ import annotations

import dataclasses

from .description import Description, EntityAdmin, EntityExists, InvalidEntity


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


def _kind(description: Description) -> str:
    return type(description).__name__.removesuffix("Description").lower()
