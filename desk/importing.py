"""Modules of the stages, imported when they are needed: a router is installed without the ingester's packages, and each without Spark's start."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from common.errors import ConfigurationError

_OURS = ("", "common", "desk", "dstream", "emulators", "ingester", "router")


def imported(module: str) -> Any:
    """A module of a stage. Raises ConfigurationError for a missing package, with the extra that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in _OURS:
            raise
        extra = {"desk": "console", "ingester": "ingester"}.get(module.partition(".")[0], "demo")
        raise ConfigurationError(
            [f"the Python package {missing} is not installed"], hint=f"pip install 'dstream-cdc[{extra}]'"
        ) from None
