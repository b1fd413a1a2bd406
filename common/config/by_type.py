"""Blocks of several types: the setting `type` in the block chooses the model that it is validated as. Knows no block itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

SETTING = "type"

UNKNOWN_TYPE = "unknown_type"
"""The type of pydantic's error for a block that no model is chosen for."""


class ByType:
    """Metadata of a field, `Annotated[Base, ByType({...})]`: one model for each type, all of them subclasses of `Base`."""

    def __init__(self, models: Mapping[str, type[BaseModel]], *, default: str | None = None) -> None:
        """Several types may share a model. `default`: the type of a block that does not name one; None: it must."""
        self.models = models
        self.default = default

    def named(self, given: Mapping[str, Any]) -> str | None:
        """The type of a block with these settings; None when it is missing or unknown."""
        name = given.get(SETTING, self.default)
        return name if isinstance(name, str) and name in self.models else None

    def types_with(self, setting: str) -> list[str]:
        """The types that have `setting`, each model's first name alone."""
        names = {model: name for name, model in reversed(list(self.models.items())) if setting in model.model_fields}
        return [name for name in self.models if name in names.values()]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = {model.__name__: handler.generate_schema(model) for model in self.models.values()}
        return core_schema.tagged_union_schema(
            choices,
            discriminator=self._choice,
            custom_error_type=UNKNOWN_TYPE,
            custom_error_message=f"must have one of the types {', '.join(self.models)}",
        )

    def _choice(self, given: Any) -> str | None:
        """The tag of the chosen model for pydantic, which adds it to the place of each error in the block."""
        if not isinstance(given, Mapping):
            return type(given).__name__
        name = self.named(given)
        return None if name is None else self.models[name].__name__
