"""From `dstream.hcl` to the settings of a command. The whole file is checked each time, the other stage's block included.

Reads the files that the settings name, and nothing else of the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import ingester.settings
from common.authorities import fault_of
from common.bus.settings import BusSettings
from common.config.bind import Document, UnsetPolicy, parsed, read
from common.config.settings import Remark
from common.config.values import Problem, complain
from ingester.settings import IngesterSettings

if TYPE_CHECKING:
    from router.settings import RouterBlock, RouterSettings

INGESTER, ROUTER = ("ingester",), ("router", "publisher")
BLOCKS = (INGESTER, ROUTER)

T = TypeVar("T")

_APART, _TELLING = re.compile(r"[^A-Za-z0-9]+"), 4
_WITHHELD = (
    "something is wrong with what an environment variable has; it is not shown here, and dstream check says more"
)

_Bus = tuple[tuple[str, ...], str, str | None, BusSettings]
"""The path of a stage's block, name and label of the block inside it, and its settings."""


def load_ingester(path: str | Path, environ: Mapping[str, str]) -> IngesterSettings:
    """The settings of `dstream ingester`. The router's variables need not be set. Raises ConfigurationError with every problem."""
    document = read(path, environ)
    bound = ingester.settings.from_document(document)
    problems = bound.problems + document.problems(BLOCKS)
    if document.block(*ROUTER) is not None:
        import router.settings  # with every output's: 0.1 s, which an ingester with a file of its own saves

        problems += router.settings.bind_block(document, unset="ignore").problems
    problems += [] if bound.value is None else _ingester_file_problems(document, bound.value)
    return _settled(document, bound.value, problems)


def load_router(path: str | Path, environ: Mapping[str, str]) -> RouterSettings:
    """The settings of `dstream router`. The ingester's secrets need not be set. Raises ConfigurationError with every problem."""
    import router.settings

    document = read(path, environ)
    bound = router.settings.from_document(document)
    problems = bound.problems + document.problems(BLOCKS)
    if document.block("ingester") is not None:
        problems += ingester.settings.from_document(document, unset="ignore").problems
    problems += [] if bound.value is None else _ca_file_problems(document, *_buses_of(bound.value))
    return _settled(document, bound.value, problems)


def load_both(path: str | Path, environ: Mapping[str, str]) -> tuple[IngesterSettings, RouterSettings]:
    """The settings of both stages, wherever they run. Raises ConfigurationError with every problem of both."""
    return _both(read(path, environ))


def load_server(path: str | Path, environ: Mapping[str, str]) -> tuple[IngesterSettings, RouterSettings]:
    """The settings of `dstream server`, whose stages share the ports of a machine. Raises ConfigurationError with every problem of both."""
    document = read(path, environ)
    first, second = _both(document)
    problem = _one_port(document, first, second)
    return _settled(document, (first, second), [problem] if problem else [])


def one_port_for_both(first: IngesterSettings, second: RouterSettings) -> str | None:
    """Why `dstream server` would refuse these settings; None if it would not."""
    if first.health is None or second.health is None or not first.health.meets(second.health):
        return None
    return _one_port_text("ingester.health.port", "router.health.port", first.health.port)


def _both(document: Document) -> tuple[IngesterSettings, RouterSettings]:
    import router.settings

    first, second = ingester.settings.from_document(document), router.settings.from_document(document)
    told = {each.missing for each in first.problems}
    more = [each for each in second.problems if each.missing is None or each.missing not in told]
    problems = first.problems + more + document.problems(BLOCKS)
    problems += [] if first.value is None else _ingester_file_problems(document, first.value)
    problems += [] if second.value is None else _ca_file_problems(document, *_buses_of(second.value))
    if problems or first.value is None or second.value is None:
        raise complain(document.path, problems)
    return first.value, second.value


def _one_port(document: Document, first: IngesterSettings, second: RouterSettings) -> Problem | None:
    one, other = document.block(*INGESTER), document.block(*ROUTER)
    if one is None or other is None or first.health is None or one_port_for_both(first, second) is None:
        return None
    line, line_of_other = (document.line(block, "health", "port") for block in (one, other))
    named, other_named = f"{one.name}.health.port (line {line})", f"{other.name}.health.port (line {line_of_other})"
    return Problem(line_of_other, _one_port_text(named, other_named, first.health.port))


def _one_port_text(of_ingester: str, of_router: str, port: int) -> str:
    return (
        f"{of_router} and {of_ingester} are both {port}: "
        "dstream server runs both stages on one machine, where each needs a port of its own"
    )


class _Recorded(Mapping[str, str]):
    """An environment that knows which of its values were asked for."""

    def __init__(self, inner: Mapping[str, str]) -> None:
        self._inner = inner
        self._parts = set[str]()

    def __getitem__(self, variable: str) -> str:
        value = self._inner[variable]
        found = [value, *(each for each in _APART.split(value) if len(each) >= _TELLING)]
        self._parts.update(each.lower() for each in found if len(each) > 2)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._inner)

    def __len__(self) -> int:
        return len(self._inner)

    def shown_in(self, text: str) -> bool:
        """Whether the text has one of them, or a word of one."""
        folded = text.lower()
        return any(each in folded for each in self._parts)


def judge(text: str, path: str | Path, environ: Mapping[str, str]) -> list[str]:
    """What is worth saying of a file that is to be written, such as variables that are not set in this process: the stages may have them.

    A file without a block for the router is the ingester's alone. Opens no file that it names. Raises ConfigurationError with every problem of
    either stage. Shows no part of what a variable holds: of a complaint with one, which is not the same without the variables, only the line is
    said.
    """
    used = _Recorded(environ)
    wrong, told, unset = _judged(text, path, used, "refuse")
    if any(used.shown_in(each) for each in [*(it.text for it in wrong), *(it for _, it in told)]):
        without, said, _ = _judged(text, path, {}, "hold")
        wrong = [
            replace(each, text=_WITHHELD, column=None) if used.shown_in(each.text) and each not in without else each
            for each in wrong
        ]
        told = [(each[0], _WITHHELD) if used.shown_in(each[1]) and each not in said else each for each in told]
    if wrong:
        raise complain(str(path), wrong)
    return [
        *(
            f"the variable {name} is not set in this process; a stage that needs it must have been started with it"
            for name in unset
        ),
        *dict.fromkeys(f"line {line}: {text}" for line, text in told),
    ]


def _judged(
    text: str, path: str | Path, environ: Mapping[str, str], unset: UnsetPolicy
) -> tuple[list[Problem], list[tuple[int, str]], list[str]]:
    """Problems, remarks by line, and variables that are not set."""
    document = parsed(text, path, environ)
    first = ingester.settings.from_document(document, unset=unset)
    found, remarks = first.problems + document.problems(BLOCKS), list(first.value.remarks if first.value else ())
    if document.block(*ROUTER) is not None:
        import router.settings

        second = (
            router.settings.from_document(document)
            if unset == "refuse"
            else router.settings.bind_block(document, unset=unset)
        )
        found = first.problems + second.problems + document.problems(BLOCKS)
        remarks += second.value.remarks if second.value else ()
    return (
        [each for each in found if each.missing is None],
        [(each.line, f"{each.event}: {each.setting} ({each.hint})") for each in remarks],
        list(dict.fromkeys(each.missing[0] for each in found if each.missing is not None)),
    )


def ingester_of(text: str, path: str | Path, environ: Mapping[str, str]) -> IngesterSettings:
    """The ingester's settings of a file's text. Raises ConfigurationError with the problems of its block."""
    document = parsed(text, path, environ)
    bound = ingester.settings.from_document(document)
    return _settled(document, bound.value, bound.problems)


def load_plan(path: str | Path, environ: Mapping[str, str]) -> tuple[IngesterSettings, RouterBlock]:
    """What `dstream plan` reads: no variable has to be set, except where a name depends on it. Raises ConfigurationError with every problem."""
    import router.settings

    document = read(path, environ)
    first = ingester.settings.from_document(document, unset="hold")
    second = router.settings.bind_block(document, unset="hold")
    problems = first.problems + second.problems + document.problems(BLOCKS)
    problems += [] if first.value is None else router.settings.nameless(first.value)
    if problems or first.value is None or second.value is None:
        raise complain(document.path, problems)
    return first.value, second.value


def older_blocks(path: str | Path, environ: Mapping[str, str]) -> list[Remark]:
    """Blocks of the file under an older name, which still works. Raises ConfigurationError when it cannot be read."""
    present = {older: names[0] for names in BLOCKS for older in names[1:]}
    return [
        Remark(line, "setting has a new name", key, f"write {present[key]}")
        for key, line, _ in read(path, environ).root.entries
        if key in present
    ]


def _settled(document: Document, value: T | None, problems: list[Problem]) -> T:
    if problems or value is None:
        raise complain(document.path, problems)
    return value


def _ingester_file_problems(document: Document, settings: IngesterSettings) -> list[Problem]:
    found = _ca_file_problems(document, (INGESTER, "queue", None, settings.queue))
    block, file = document.block(*INGESTER), settings.db.options.get("server_certificate")
    if block is not None and file is not None and settings.db.verified and (fault := fault_of(file)) is not None:
        text = f"ingester.db_connection_string has certificate={file}, which cannot be used: {fault}; name a PEM file"
        found.append(Problem(document.line(block, "db_connection_string"), text))
    return found


def _buses_of(settings: RouterSettings) -> tuple[_Bus, ...]:
    further = ((ROUTER, "output", each.name, each) for each in settings.outputs)
    return (ROUTER, "source", None, settings.source), (ROUTER, "output", None, settings.output), *further


def _ca_file_problems(document: Document, *buses: _Bus) -> list[Problem]:
    """Certificate files that cannot be used. Only of the stages that run here: those of the other may be on another machine."""
    found = []
    for names, name, label, bus in buses:
        block = document.block(*names)
        if block is not None and (unusable := bus.unusable_file()) is not None:
            setting, text = unusable
            dotted = ".".join(filter(None, [block.name, name, label, setting]))
            found.append(
                Problem(document.line(document.inner(block, name, label) or block, setting), f"{dotted} {text}")
            )
    return found
