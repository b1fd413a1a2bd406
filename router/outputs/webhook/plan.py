"""What a webhook needs, for `dstream plan`: nothing is created, and the receiver must be there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from common.bus.ports import Provision
from router.outputs.port import Planned, Stream
from router.outputs.webhook.settings import WebhookSettings


def planned(settings: WebhookSettings, streams: Sequence[Stream], provision: Provision) -> Planned:
    return Planned(creates=(), needs=tuple(_needs(settings, streams, provision)), script="")


def _needs(settings: WebhookSettings, streams: Sequence[Stream], provision: Provision) -> Iterator[str]:
    for where in sorted({stream.destination for stream in streams}):
        yield f"{settings.method} {where}: answered with 2xx once the change is stored"
        if settings.check_method != "none" and provision == "verify":
            yield f"{settings.check_method} {where}: answered with 2xx"
    if settings.proxy is not None:
        yield "a connection to the proxy, and through it to the receiver"
