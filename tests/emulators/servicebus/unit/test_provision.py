"""Entities asked for at the start: kept when they are there as asked, never changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulators.servicebus.description import InvalidEntity, QueueDescription, TopicDescription
from emulators.servicebus.entities.namespace import Namespace
from emulators.servicebus.journal import Forgetful
from emulators.servicebus.provisioning.provision import provide

ASKED = QueueDescription(max_delivery_count=3)


@pytest.fixture
def namespace() -> Namespace:
    return Namespace(lambda: 0.0, Forgetful())


def test_what_is_not_there_is_made(namespace: Namespace) -> None:
    provide(namespace, "q", ASKED)
    assert namespace.get("q").description == ASKED


def test_what_is_there_as_asked_is_kept(namespace: Namespace) -> None:
    created = namespace.create("Q", ASKED)
    provide(namespace, "q", ASKED)
    assert namespace.get("q").path == created.path


def test_what_is_there_otherwise_is_refused_by_the_settings_that_differ(namespace: Namespace) -> None:
    there = replace(ASKED, max_delivery_count=5, requires_session=True)
    namespace.create("q", there)
    with pytest.raises(InvalidEntity, match=r"requires_session is True, asked for was False; max_delivery_count is 5"):
        provide(namespace, "q", ASKED)
    assert namespace.get("q").description == there


def test_an_entity_of_another_kind_is_refused(namespace: Namespace) -> None:
    namespace.create("t", TopicDescription())
    with pytest.raises(InvalidEntity, match="'t' is there as a topic, and a queue was asked for"):
        provide(namespace, "t", ASKED)
