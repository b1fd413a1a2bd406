"""What to do about a document whose version was not lower than the one that was sent: the positions decide. Pure."""

from __future__ import annotations

from router.outputs.elasticsearch.answers import Answer
from router.outputs.elasticsearch.bulk import Found
from router.outputs.elasticsearch.operations import Operation
from router.outputs.elasticsearch.versions import Versioned, above, same_band, version_of


def again(operation: Operation, stale: Answer, found: Found | None) -> Versioned | None:
    """The version to send it with once more; None when it must not be written: the document holds it, or something newer.

    `found`: the document as it was read after the answer; None: it was removed. What removed it, nobody can say exactly any more. In another
    band it was a later change. In the same one the row may have been removed and inserted by one transaction, and the insert must be written.
    """
    if operation.position is None:
        return None
    if found is not None:
        text = operation.position.text
        if found.position is not None and (
            found.position > text or (found.position == text and not operation.position.of_read)
        ):
            return None
        return above(found.version, operation.position)
    current = stale.current if stale.current is not None else version_of(operation.position)
    if operation.deletes or not same_band(current, version_of(operation.position)):
        return None
    return above(current, operation.position)
