"""The settings of the output `azure_event_hubs`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from common.azure_amqp.settings import NamespaceSettings
from common.bus.place import SharedPlaceTemplate
from common.bus.settings import EnvelopedOutputSettings
from common.config.durations import Duration, between
from common.config.values import WrongText
from common.names import escaped

LONGEST_NAME = 256
"""Characters of an event hub's name (https://learn.microsoft.com/azure/event-hubs/event-hubs-quotas)."""

_REFUSES = re.compile(r"_(?=x)|[^a-z0-9_-]")
_WRITTEN = re.compile(r"[A-Za-z0-9._-]*")
_BRACED = re.compile(r"\{[^{}]*\}")


def _hub(text: str) -> str:
    """What stands around the names in braces must do in a name. Raises WrongText."""
    plain = _BRACED.sub("x", text)
    if not _WRITTEN.fullmatch(plain):
        at = _WRITTEN.match(plain)
        raise WrongText(
            "has a character that no event hub's name can have: letters, digits, '.', '-' and '_'",
            at.end() if at is not None and _BRACED.search(text) is None else 0,
        )
    if not (plain[0].isalnum() and plain[-1].isalnum()) or len(plain) > LONGEST_NAME:
        raise WrongText(f"must begin and end with a letter or digit, and have at most {LONGEST_NAME} characters")
    return text


class EventHubsOutput(NamespaceSettings, EnvelopedOutputSettings):
    """Event hubs of a namespace of Azure Event Hubs."""

    longest_place: ClassVar[int | None] = LONGEST_NAME

    type: Literal["azure_event_hubs"] = Field(description="The type of output.")
    event_hub: Annotated[SharedPlaceTemplate, AfterValidator(_hub)] = Field(
        description=(
            "The event hub: one name, which all tables share, or a template for a hub a table (`{server}`, `{database}`, `{schema}`, `{table}`, "
            "`{topic}`). A namespace of the tiers Basic and Standard has at most 10 hubs. There is no default, because DStream cannot create hubs."
        ),
    )
    timeout: Annotated[Duration, between(timedelta(seconds=1), timedelta(minutes=5))] = Field(
        default=timedelta(seconds=30),
        description=(
            "How long to wait for the answer to a batch, `1s` to `5m`. `30s` is longer than a failover within the service usually takes. What was "
            "not answered by then is sent again."
        ),
    )

    @property
    def place_setting(self) -> str:
        return "event_hub"

    def escape(self, text: str) -> str:
        """In lower case, because names of hubs that differ in case alone are the same."""
        return escaped(text.lower(), _REFUSES)
