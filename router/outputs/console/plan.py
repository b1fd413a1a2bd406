"""What `dstream plan` says of a console. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from common.bus.ports import Provision
from router.outputs.console.settings import ConsoleSettings
from router.outputs.port import Planned, Stream


def planned(settings: ConsoleSettings, streams: Sequence[Stream], provision: Provision) -> Planned:
    return Planned(creates=(), needs=(f"a reader of {settings.where}, if it is a pipe",), script="")
