"""What each output of a configuration needs, in words and as a script for its server's own tools. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from common.errors import ConfigurationError
from ingester.settings import IngesterSettings
from router.outputs.around import Around
from router.outputs.places import streams_by_output
from router.outputs.port import Planned
from router.outputs.registry import first_name, planned_of
from router.settings import RouterBlock


def written(ingester: IngesterSettings, router: RouterBlock) -> str:
    """One part for each output that gets something."""
    origin = ingester.origin
    topics = {origin.topic(table): table for table in ingester.streams}
    around = Around(router.subscriptions, router.duplicate_window, ingester.queue.ordering)
    parts = []
    for name, streams in streams_by_output(router.all_outputs.values(), router.route, origin, topics).items():
        output = router.all_outputs[name]
        found = planned_of(output, list(streams.values()), router.provision, around)
        heading = f"# output {name}: {first_name(output)}{_where(router, name)}"
        parts.append("\n".join([heading, *_lines(found)]))
    return "\n\n".join(parts) + "\n"


def _where(router: RouterBlock, name: str) -> str:
    try:
        return f" at {router.all_outputs[name].where}"
    except ConfigurationError:  # a variable is not set
        return ""


def _lines(found: Planned) -> Iterator[str]:
    yield from _listed("created at a start", found.creates)
    yield from _listed("needs", found.needs)
    if found.script:
        yield found.script.rstrip("\n")


def _listed(heading: str, lines: Sequence[str]) -> Iterator[str]:
    yield f"# {heading}:{'' if lines else ' nothing'}"
    yield from (f"#   {line}" for line in lines)
