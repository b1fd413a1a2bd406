"""Which topics a snapshot or a replay may go to instead of its table's: decided before anything is opened."""

from __future__ import annotations

import pytest

from common.errors import ConfigurationError
from router.side_topic import named
from tests.unit.router.test_restarts import SETTINGS


def test_a_name_is_as_messages_have_it() -> None:
    assert named(SETTINGS, "Orders-Copy", "sub.1") == "orders-copy"


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("A.B.C.Events", "this is the topic of dbo.C"),
        ("Ingest-Queue", "this is the ingest queue"),
        ("srv.db.nobody.events", "names like this are those of tables' topics"),
        ("a/b", "must be 1 to 260 of the characters"),
        ("-a", "must be 1 to 260 of the characters"),
        ("", "must be 1 to 260 of the characters"),
        ("ä", "must be 1 to 260 of the characters"),
    ],
)
def test_what_a_side_topic_must_not_be(topic: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        named(SETTINGS, topic)


def test_a_subscription_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"subscription \$x: must be 1 to 50"):
        named(SETTINGS, "orders-copy", "$x")
    with pytest.raises(ConfigurationError, match=r"router\.provision is none"):
        named(SETTINGS.model_copy(update={"provision": "none"}), "orders-copy", "sub1")
