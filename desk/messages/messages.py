"""The port `Messages` of `desk/desk.py`: the explorer and the stories over one set of browsers. Wiring makes it; decides nothing."""

from __future__ import annotations

from collections.abc import Callable

from desk.documents.messages import MessageDetail, MessageFilter, MessagePage, Stories, StoryOrder
from desk.documents.tables import Pause
from desk.messages.browsers import Browsers, ShelvesOf
from desk.messages.explorer import Explorer
from desk.messages.places import Places
from desk.messages.stories import Configured, StoryTeller
from ingester.commands.changes import change_finder
from ingester.settings import IngesterSettings
from router.settings import RouterSettings


def configured(ingester: IngesterSettings, router: RouterSettings) -> Configured:
    """Of settings that know the tables which patterns match: `with_matches` of `ingester.commands.stores`, and `with_tables`."""
    return Configured(router, Places(router), lambda: change_finder(ingester))


class DeskMessages:
    """Callable from any thread. `present`: the configuration that holds now; asked at each request, so it should be kept. `pause_of`: the pause
    of a table by its key. Raises what `desk/desk.py` says."""

    def __init__(
        self, present: Callable[[], Configured], shelves_of: ShelvesOf, pause_of: Callable[[str], Pause | None]
    ) -> None:
        self._browsers = Browsers(shelves_of)
        self._explorer = Explorer(lambda: present().places, self._browsers)
        self._stories = StoryTeller(present, self._browsers, pause_of)

    def page(
        self,
        entity: str,
        *,
        dead: bool,
        chosen: MessageFilter,
        after: str | None,
        most: int,
        newest_first: bool = False,
    ) -> MessagePage:
        return self._explorer.page(entity, dead=dead, chosen=chosen, after=after, most=most, newest_first=newest_first)

    def message(self, entity: str, *, dead: bool, sequence: int) -> MessageDetail:
        return self._explorer.message(entity, dead=dead, sequence=sequence)

    def stories(self, order: StoryOrder) -> Stories:
        return self._stories.stories(order)

    def close(self) -> None:
        """Never raises."""
        self._browsers.close()
