"""`dstream.hcl` to the settings of a command. The whole file is checked each time: a typo in the other stage's block is one too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import ingester.settings
import router.settings
from common.config import Document, Problem, complain, read
from ingester.settings import IngesterSettings
from router.settings import RouterSettings

BLOCKS = (("ingester",), ("router", "publisher"))

T = TypeVar("T")


def load_ingester(path: str | Path, environ: Mapping[str, str]) -> IngesterSettings:
    """What `dstream ingester` runs on; the router's variables need not be set. Raises ConfigurationError with every problem."""
    document = read(path, environ)
    bound = ingester.settings.from_document(document)
    problems = bound.problems + document.problems(BLOCKS)
    if document.block("router", "publisher") is not None:
        problems += router.settings.bind_block(document, unset="ignore").problems
    return _settled(document, bound.value, problems)


def load_router(path: str | Path, environ: Mapping[str, str]) -> RouterSettings:
    """What `dstream router` runs on; the ingester's secrets need not be set. Raises ConfigurationError with every problem."""
    document = read(path, environ)
    bound = router.settings.from_document(document)
    problems = bound.problems + document.problems(BLOCKS)
    if document.block("ingester") is not None:
        problems += ingester.settings.from_document(document, unset="ignore").problems
    return _settled(document, bound.value, problems)


def load_both(path: str | Path, environ: Mapping[str, str]) -> tuple[IngesterSettings, RouterSettings]:
    """What `dstream server` runs on: every problem of both stages at once."""
    document = read(path, environ)
    first, second = ingester.settings.from_document(document), router.settings.from_document(document)
    problems = first.problems + second.problems + document.problems(BLOCKS)
    if problems or first.value is None or second.value is None:
        raise complain(document.path, problems)
    return first.value, second.value


def _settled(document: Document, value: T | None, problems: list[Problem]) -> T:
    if problems or value is None:
        raise complain(document.path, problems)
    return value
