"""What to say of a race for a new field that does not end: who reads the mapping knows whether anybody has brought the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from common.errors import TransientError
from router.outputs.elasticsearch.answers import Answer, Fate
from router.outputs.elasticsearch.bulk import Place
from router.outputs.elasticsearch.index import has_field
from router.outputs.elasticsearch.races import PATIENCE

_HINT: Final = (
    "look at the cluster's pending tasks and for nodes that lag behind its state; nothing is dead-lettered, and the documents are accepted once "
    "each node has the field"
)


class LastingRaces:
    """Those of one send. Reads the mapping once, and only if there is one."""

    def __init__(self, place: Place, until: float) -> None:
        self._place, self._until = place, until
        self._mapping: Mapping[str, Any] | None = None

    def answer(self, raced: Answer) -> Answer | None:
        """The answer in place of `raced`; None when it refuses the document.

        Where the index has the field, a node is late: once it knows, it takes the document, or refuses it by itself. Where the index does not have
        it after so long, nobody has brought it: the document contradicts itself. A mapping is read from a node that has the master's state
        (OpenSearch), or from one that may lag (Elasticsearch 9), which decides such races by itself since 8.16 and has none that last.
        """
        try:
            if self._mapping is None:
                self._mapping = self._place.mapping(self._until)
        except TransientError as error:
            words = f"{raced.words}, and whether another document has brought it cannot be read: {error.message}"
            return Answer(Fate.LATER, words, error.hint)
        if raced.field is not None and not has_field(self._mapping, raced.field):
            return None
        words = f"{raced.words}: its node has not learned in {PATIENCE:.0f} s that another document has brought it"
        return Answer(Fate.LATER, words, _HINT)
