"""The data sections of a batch, written at once. Changes single links, and nothing in an SDK that is built otherwise.

azure-servicebus 7.15 writes the section of each message of a batch by four nested calls, although all that is written is three octets, a length
and the message (AMQP 1.0, 3.2.6). Here a link hands the SDK a batch without its data, and adds the data to what the SDK has made of the rest.
Both happen within one call: a link for which this was not done sends as the SDK does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from common.azure_amqp.encoding import before_data

_DATA: Final = "data"


def write_at_once(handler: Any) -> None:
    """Call once for the handler of one of the SDK's senders, when its link is attached."""
    link: Any = getattr(handler, "_link", None)
    session: Any = getattr(link, "_session", None)
    if not hasattr(link, "_outgoing_transfer") or not hasattr(session, "_outgoing_transfer"):
        return
    transfer = link._outgoing_transfer

    def transfer_at_once(delivery: Any) -> Any:
        whole = delivery.message
        if not _last_is_data(whole):
            return transfer(delivery)
        data, pass_on = sections(whole.data), session._outgoing_transfer

        def with_data(delivery: Any, *others: Any) -> Any:
            delivery.frame["payload"] += data
            return pass_on(delivery, *others)

        delivery.message, session._outgoing_transfer = whole._replace(data=None), with_data
        try:
            return transfer(delivery)
        finally:
            delivery.message, session._outgoing_transfer = whole, pass_on

    link._outgoing_transfer = transfer_at_once


def sections(data: Iterable[bytes]) -> bytearray:
    """Each of `data` as a data section."""
    written = bytearray()
    for octets in data:
        written += before_data(len(octets))
        written += octets
    return written


def _last_is_data(message: Any) -> bool:
    """Whether nothing follows the data in the order in which the SDK writes a message's sections."""
    fields = getattr(message, "_fields", ())
    if _DATA not in fields or not message.data:
        return False
    behind = fields[fields.index(_DATA) + 1 :]
    return not any(getattr(message, name) for name in (*behind, "delivery_annotations"))
