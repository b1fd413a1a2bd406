"""Names of queues and subscriptions: from a name to its place and back, and what unknown names are answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.bus.browsing import Shelf
from common.config.bind import read
from desk.desk import NotFound
from desk.messages.places import Places
from router.settings import from_document

FILE = """ingester {
  db_connection_string = "sqlserver://u:p@sql.internal:1433?database=shop"
  queue {
    name = "ingest-queue"
    connection_string = "Endpoint=sb://one;SharedAccessKeyName=n;SharedAccessKey=k"
  }
  tables = ["Persons", "sales.Orders"]
}
router {
  source {
    connection_string = "Endpoint=sb://one;SharedAccessKeyName=n;SharedAccessKey=k"
  }
  output {
    type = "servicebus"
    connection_string = "Endpoint=sb://two;SharedAccessKeyName=n;SharedAccessKey=k"
  }
  output "audit" {
    type = "servicebus"
    connection_string = "Endpoint=sb://three;SharedAccessKeyName=n;SharedAccessKey=k"
    topic = "audit/{table}"
  }
  output "mail" {
    type = "servicebus"
    connection_string = "Endpoint=sb://four;SharedAccessKeyName=n;SharedAccessKey=k"
    queue = "mail"
  }
  output "lines" {
    type = "file"
    root = "/lines"
  }
  route {
    from = ["Persons"]
    to = ["audit", "mail", "lines", "default"]
  }
}
"""
PERSONS, ORDERS = "sql.shop.persons.events", "sql.shop.sales.orders.events"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    path = Path(tmp_path_factory.mktemp("places")) / "dstream.hcl"
    path.write_text(FILE)
    bound = from_document(read(path, {}))
    assert bound.value is not None, bound.problems
    return Places(bound.value, extra=["side.topic"])


def test_all_that_the_configuration_names_has_a_name_that_leads_back_to_it(places: Places) -> None:
    known = places.known()
    assert [each.entity for each in known] == [
        "queue",
        f"topic/{PERSONS}/sub1",
        f"topic/{ORDERS}/sub1",
        "topic/side.topic/sub1",
        "output/audit/topic/audit/persons/sub1",
        "output/mail/queue/mail",
    ]
    for place in known:
        assert places.of(place.entity) == place
        assert places.of(place.entity.upper()).shelf == place.shelf


def test_a_topic_whose_name_has_a_slash_is_told_from_its_subscription(places: Places) -> None:
    place = places.of("output/audit/topic/audit/persons/other")
    assert (place.output, place.shelf) == ("audit", Shelf("audit/persons", "other"))
    assert place.looked_at(dead=True) == Shelf("audit/persons", "other", dead=True)


def test_a_queue_is_on_the_bus_of_the_router_and_a_topic_on_that_of_its_output(places: Places) -> None:
    assert places.of("queue").bus.where == "one"
    assert places.of(f"topic/{PERSONS}/sub1").bus.where == "two"
    assert places.of("output/mail/queue/mail").bus.where == "four"
    assert (places.holds("mail"), places.holds("audit"), places.holds("lines")) == (True, False, None)
    assert places.within("mail", "mail") == [places.of("output/mail/queue/mail")]
    assert places.within("default", PERSONS) == [places.of(f"topic/{PERSONS}/sub1")]
    assert places.within("lines", "x") == ()


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("topic/sql.shop.person.events/sub1", f"topic/{PERSONS}/sub1"),
        ("topic/somebody.elses/sub1", "sends to no entity"),
        (f"topic/{PERSONS}", f"the subscriptions that DStream creates are topic/{PERSONS}/sub1"),
        (f"topic/{PERSONS}/", "an empty text is no name of a subscription"),
        (f"topic/{PERSONS}/no good", "no good is no name of a subscription"),
        (f"topic/{PERSONS}/$DeadLetterQueue", "is no name of a subscription"),
        (f"topic/{PERSONS}/sub1/$DeadLetterQueue", "sends to no entity"),
        ("output/lines/topic/x/sub1", "sends to no entity"),
        ("output/mail/queue/other", "output/mail/queue/mail"),
        ("queue/ingest-queue", "its entities are queue, topic/"),
        ("", "its entities are queue, topic/"),
        ("nothing", "its entities are queue, topic/"),
        ("a" * 10_000, "sends to no entity"),
    ],
)
def test_an_unknown_name_is_answered_with_names_like_it(places: Places, name: str, part: str) -> None:
    with pytest.raises(NotFound) as caught:
        places.of(name)
    assert part in str(caught.value)
    assert len(str(caught.value)) < 2_000
