"""Names of streams at outputs, as they are counted: of the default output a stream's own name, of others with the output's. Pure."""

from __future__ import annotations

from collections.abc import Collection

from common.config.blocks import UNLABELLED

_OF_OUTPUT = "\x1f"
"""Between an output's name and a stream's: no name has it."""


def spot(topic: str, output: str = UNLABELLED) -> str:
    """The name of a stream at an output among all: of the default output, the stream's own."""
    return topic if output == UNLABELLED else f"{output}{_OF_OUTPUT}{topic}"


def parts_of_spot(text: str) -> tuple[str, str]:
    """The output, and the stream."""
    output, labelled, topic = text.partition(_OF_OUTPUT)
    return (output, topic) if labelled else (UNLABELLED, text)


def spoken(text: str, *, several: bool) -> str:
    """The same for a person; without a stream: the output as a whole. `several`: there are other outputs, so that the default one is named."""
    output, topic = parts_of_spot(text)
    if not topic:
        return f"output {output}"
    return f"topic {topic} of output {output}" if several or output != UNLABELLED else f"topic {topic}"


def stood_for(text: str, whole: Collection[str]) -> bool:
    """Whether this is a stream of an output that is in `whole`."""
    output, topic = parts_of_spot(text)
    return bool(topic) and output in whole
