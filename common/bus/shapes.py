"""What the queue and the topics that DStream makes look like: `provision = "create"` creates them so, and `dstream plan` writes it down. Pure.

The names are those of the management API, whose SDK, Terraform and (in camel case) Resource Manager share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from common.bus.ports import QueueNeed, TopicNeed

Options = Mapping[str, Any]
"""By name: truths, numbers and durations."""

PREMIUM_MEGABYTES, STANDARD_MEGABYTES = 81_920, 5_120
"""The largest queue or topic of each tier: 80 GB and 5 GB (https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas). A full
queue holds up every table."""

MOST_DELIVERIES = 2_000
"""Of a message until the service dead-letters it; each lost lock counts as one. The router itself dead-letters poison, so a limit of
deliveries only ever meets good messages."""

LOCK = timedelta(minutes=1)
"""The service's own default, which `create` leaves as it is: a router that died keeps a session for so long."""


def queue_options(need: QueueNeed) -> Options:
    """Without its size and the limit of deliveries, which a tier or an emulator may refuse."""
    return {
        "requires_session": need.sessions,
        "requires_duplicate_detection": True,
        "duplicate_detection_history_time_window": need.duplicate_window,
        "dead_lettering_on_message_expiration": True,
    }


def topic_options(need: TopicNeed) -> Options:
    """Without its size."""
    options: dict[str, Any] = {
        "requires_duplicate_detection": True,
        "duplicate_detection_history_time_window": need.duplicate_window,
        "support_ordering": True,
    }
    return options if need.mark is None else {**options, "user_metadata": need.mark}
