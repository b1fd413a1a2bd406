"""Dead letters of further outputs, as `dstream dlq` calls them: of a subscription, and of an output's queue."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient
from typer.testing import CliRunner

from common.bus.browsing import Shelf
from common.bus.ports import Need, QueueNeed, TopicNeed
from common.servicebus.provision import provision
from dstream.cli import app
from tests.contracts.dead_letters.conftest import Namespace, change, numbers, replace

OUTPUTS = """  output "audit" {{
    type = "servicebus"
    connection_string = "{connection}"
    management_endpoint = "{endpoint}"
    topic = "audit/{{table}}"
  }}
  output "mail" {{
    type = "servicebus"
    connection_string = "{connection}"
    management_endpoint = "{endpoint}"
    queue = "mail"
  }}
  route {{
    from = ["Persons"]
    to = ["audit", "mail"]
  }}
"""
CASES = pytest.mark.parametrize(
    ("entity", "shelf", "others"),
    [
        ("output/audit/topic/audit/persons/sub1", Shelf("audit/persons", "sub1"), [Shelf("audit/persons", "sub2")]),
        ("output/mail/queue/mail", Shelf("mail"), []),
    ],
    ids=["a subscription", "a queue"],
)


@CASES
def test_they_go_back_to_where_they_were(
    namespace: Namespace, tmp_path: Path, entity: str, shelf: Shelf, others: list[Shelf]
) -> None:
    needs: list[Need] = [
        TopicNeed("audit/persons", ("sub1", "sub2")),
        QueueNeed("mail", sessions=False),
    ]
    provision(namespace.bus.address, needs, how="create", management_endpoint=namespace.endpoint)
    sender = namespace.bus.sender(shelf.entity)
    sender.send([replace(change(n), session_id=None) for n in (1, 2, 3)])
    sender.close()
    with ServiceBusClient.from_connection_string(namespace.emulator.connection_string) as client:
        receiver = (
            client.get_queue_receiver(shelf.entity)
            if shelf.subscription is None
            else client.get_subscription_receiver(shelf.entity, shelf.subscription)
        )
        left = 3
        with receiver:
            while left:
                for each in receiver.receive_messages(left, max_wait_time=10):
                    receiver.dead_letter_message(each, reason="Mine")
                    left -= 1
    path = tmp_path / "dstream.hcl"
    path.write_text(namespace.configuration(outputs=OUTPUTS))
    environment = {"DSTREAM_AUDIT_FILE": str(tmp_path / "audit.jsonl")}

    def run(*arguments: str) -> dict[str, object]:
        ran = CliRunner().invoke(app, ["dlq", *arguments, "--json", "--config", str(path)], env=environment)
        assert ran.exit_code == 0, ran.output
        found: dict[str, object] = json.loads(ran.stdout)
        return found

    listed = run("list", entity)
    assert isinstance(listed["items"], list)
    assert [each["reason"] for each in listed["items"]] == ["Mine"] * 3
    result = run("replay", entity, "--reason", "mine")
    assert (result["entity"], result["replayed"], result["complete"]) == (entity, 3, True)
    told = " ".join(str(each) for each in result["warnings"]) if isinstance(result["warnings"], list) else ""
    assert ("get it again: sub2" in told) is bool(others)
    assert namespace.lying(replace(shelf, dead=True)) == []
    assert numbers(namespace.lying(shelf)) == [1, 2, 3]
    for other in others:
        assert numbers(namespace.lying(other)) == [1, 2, 3] * 2
