"""The output whose messages a schema is of. Pure."""

from __future__ import annotations

from common.bus.settings import EnvelopedOutputSettings, OutputSettings
from common.errors import ConfigurationError


def enveloped(output: OutputSettings) -> EnvelopedOutputSettings:
    """Raises ConfigurationError for an output that gets rows."""
    if (found := output.enveloped) is None:
        raise ConfigurationError(
            [f"output {output.name} of type {output.type} gets rows and no messages: only messages have a schema"],
            hint="name an envelope with --envelope, or an output that gets messages",
        )
    return found
