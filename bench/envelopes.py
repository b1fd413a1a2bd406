"""`python -m bench.envelopes`: microseconds that each envelope takes for a message, in one thread. Sends nothing."""

from __future__ import annotations

import json
import time
from dataclasses import replace

from pydantic import SecretStr

from common.message import Message
from common.servicebus.settings import ServiceBusOutput
from router.envelopes.registry import converter_of

_STRING = SecretStr("Endpoint=sb://x;SharedAccessKeyName=n;SharedAccessKey=k")
_ROUNDS, _MESSAGES = 5, 5_000

_FORMS = {
    "dstream": {},
    "cloudevents, structured": {"envelope": "cloudevents"},
    "cloudevents, binary": {"envelope": "cloudevents", "cloudevents_mode": "binary"},
    "debezium": {"envelope": "debezium"},
    "changes": {"envelope": "changes"},
}


def message(columns: int) -> Message:
    """An update of a row, as the ingester writes it."""
    data = {f"Column{number}": ("6.3230", number, "žluťoučký kůň", None)[number % 4] for number in range(columns)}
    event = "database.dbo.Persons:0000003600000b200003-2-0000003600000b200002-4"
    metadata = {
        "CaptureInstance": "dbo_Persons",
        "CommandID": 2,
        "CommitTime": "2026-11-21T10:23:45.457Z",
        "Database": "database",
        "Destination": "server.database.persons.events",
        "EventID": event,
        "IngestQueue": "ingest-queue",
        "LSN": "0000003600000b200003",
        "OperationID": 4,
        "OperationType": "Update",
        "Schema": "dbo",
        "SeqVal": "0000003600000b200002",
        "Server": "server",
        "TableName": "Persons",
        "ChangedColumns": list(data)[:2],
    }
    body = json.dumps({"data": data, "metadata": metadata}, ensure_ascii=False, separators=(",", ":")).encode()
    properties = {"table": "Persons", "schema": "dbo", "operation": "Update", "lsn": "0000003600000b200003"}
    return Message(body, event, "server.database.persons.events", "Update", application_properties=properties)


def main() -> None:
    for columns in (5, 20, 100):
        one = message(columns)
        batch = [replace(one, message_id=f"{number}") for number in range(_MESSAGES)]
        print(f"{columns} columns, {len(one.body):,} bytes")
        for name, given in _FORMS.items():
            settings = ServiceBusOutput.model_validate({"connection_string": _STRING, **given})
            converter = converter_of(settings)
            if converter is None:
                print(f"  {name:<24} no object between")
                continue
            best = float("inf")
            for _ in range(_ROUNDS):
                began = time.perf_counter()
                for each in batch:
                    converter.converted(each)
                best = min(best, time.perf_counter() - began)
            print(f"  {name:<24} {best / _MESSAGES * 1e6:6.1f} us a message")


if __name__ == "__main__":
    main()
