"""The elements of the management API's entity descriptions: their order, which can be written, which are always the same.

Names and order are those of the REST reference: the service reads a DataContract, where order counts. A setting and its
element share their name: `max_size_in_megabytes` is `MaxSizeInMegabytes`.
Sources: https://learn.microsoft.com/rest/api/servicebus/create-queue, .../create-topic, .../create-subscription.
"""

from __future__ import annotations

import re
from typing import Final

from emulators.servicebus.description import QueueDescription, SubscriptionDescription, TopicDescription

API_VERSIONS: Final = ("2017-04", "2021-05", "2024-05")
"""Older first. 2021-05 adds MaxMessageSizeInKilobytes, 2024-05 the numbers of filters of a topic."""

ADDED: Final = {
    "MaxMessageSizeInKilobytes": "2021-05",
    "SqlFilterCount": "2024-05",
    "CorrelationFilterCount": "2024-05",
}

READ_ONLY: Final = {
    "SizeInBytes",
    "MessageCount",
    "CountDetails",
    "CreatedAt",
    "UpdatedAt",
    "AccessedAt",
    "SubscriptionCount",
    "SqlFilterCount",
    "CorrelationFilterCount",
    "EntityAvailabilityStatus",
}

CONSTANT: Final = {
    "IsAnonymousAccessible": "false",
    "AuthorizationRules": "",
    "SupportOrdering": "true",
    "EntityAvailabilityStatus": "Available",
    "EnableExpress": "false",
    "FilteringMessagesBeforePublishing": "false",
    "EnableSubscriptionPartitioning": "false",
}
"""What every entity here has in common, unless its description says otherwise."""

ORDER: Final[dict[type, tuple[str, ...]]] = {
    QueueDescription: (
        "LockDuration",
        "MaxSizeInMegabytes",
        "RequiresDuplicateDetection",
        "RequiresSession",
        "DefaultMessageTimeToLive",
        "DeadLetteringOnMessageExpiration",
        "DuplicateDetectionHistoryTimeWindow",
        "MaxDeliveryCount",
        "EnableBatchedOperations",
        "SizeInBytes",
        "MessageCount",
        "IsAnonymousAccessible",
        "AuthorizationRules",
        "Status",
        "ForwardTo",
        "UserMetadata",
        "CreatedAt",
        "UpdatedAt",
        "AccessedAt",
        "SupportOrdering",
        "CountDetails",
        "AutoDeleteOnIdle",
        "EnablePartitioning",
        "EntityAvailabilityStatus",
        "ForwardDeadLetteredMessagesTo",
        "EnableExpress",
        "MaxMessageSizeInKilobytes",
    ),
    TopicDescription: (
        "DefaultMessageTimeToLive",
        "MaxSizeInMegabytes",
        "RequiresDuplicateDetection",
        "DuplicateDetectionHistoryTimeWindow",
        "EnableBatchedOperations",
        "SizeInBytes",
        "FilteringMessagesBeforePublishing",
        "IsAnonymousAccessible",
        "AuthorizationRules",
        "Status",
        "UserMetadata",
        "CreatedAt",
        "UpdatedAt",
        "AccessedAt",
        "SupportOrdering",
        "CountDetails",
        "SubscriptionCount",
        "SqlFilterCount",
        "CorrelationFilterCount",
        "AutoDeleteOnIdle",
        "EnablePartitioning",
        "EntityAvailabilityStatus",
        "EnableSubscriptionPartitioning",
        "EnableExpress",
        "MaxMessageSizeInKilobytes",
    ),
    SubscriptionDescription: (
        "LockDuration",
        "RequiresSession",
        "DefaultMessageTimeToLive",
        "DeadLetteringOnMessageExpiration",
        "DeadLetteringOnFilterEvaluationExceptions",
        "MessageCount",
        "MaxDeliveryCount",
        "EnableBatchedOperations",
        "Status",
        "ForwardTo",
        "CreatedAt",
        "UpdatedAt",
        "AccessedAt",
        "CountDetails",
        "UserMetadata",
        "ForwardDeadLetteredMessagesTo",
        "AutoDeleteOnIdle",
        "EntityAvailabilityStatus",
    ),
}

KINDS: Final = {kind.__name__: kind for kind in ORDER}

NOT_IMITATED: Final = {
    "EnableExpress": "express entities are not supported by this emulator",
    "FilteringMessagesBeforePublishing": "filtering before publishing is not supported by this emulator",
    "EnablePartitioning": "partitioned entities are not supported by this emulator",
    "EnableSubscriptionPartitioning": "partitioned subscriptions are not supported by this emulator",
    "IsAnonymousAccessible": "anonymous access is not supported by this emulator",
}


def attribute_of(element: str) -> str:
    """`MaxSizeInMegabytes` -> `max_size_in_megabytes`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", element).lower()
