"""Which tables patterns match now: asked for with a deadline, not at every question, and unknown where the database does not answer."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from common.errors import ConfigurationError, PermanentError, TransientError
from common.names import TableName
from desk.configuring import making
from desk.configuring.making import Matching, configuring_of
from desk.configuring.places.config_map import ConfigMapPlace
from dstream.config import ingester_of, judge
from ingester.settings import IngesterSettings
from tests.unit.desk.configuring.test_edited import BUS, FILE


def reads(text: str) -> IngesterSettings:
    return ingester_of(text, "dstream.hcl", {"BUS": BUS})


class Database:
    def __init__(self) -> None:
        self.asked = 0
        self.away = False
        self.hangs = threading.Event()
        self.hangs.set()

    def look(self, settings: IngesterSettings) -> IngesterSettings:
        self.asked += 1
        if self.away:
            raise TransientError("away")
        self.hangs.wait(30)
        found = (*settings.tables, TableName("sales", "Orders"))
        return settings.model_copy(update={"tables": found})


def test_it_is_asked_now_and_then() -> None:
    database, now = Database(), [0.0]
    matching = Matching(reads, database.look, lambda: now[0])
    assert matching(FILE) == (TableName("dbo", "Persons"), TableName("sales", "Orders"))
    matching(FILE)
    assert database.asked == 1
    matching(FILE + "# other\n")
    now[0] = 31
    matching(FILE + "# other\n")
    assert database.asked == 3


def test_without_an_answer_they_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database()
    database.away = True
    assert Matching(reads, database.look)(FILE) == ()
    assert Matching(reads, database.look)("ingester {") == ()
    monkeypatch.setattr(making, "_SECONDS", 0.05)
    database.away = False
    database.hangs.clear()
    assert Matching(reads, database.look)(FILE) == ()
    database.hangs.set()


def test_how_it_was_started_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "dstream.hcl"
    file.write_text(FILE)

    def check(text: str) -> list[str]:
        return judge(text, file, {"BUS": BUS})

    found = configuring_of(file, None, judge=check, reads=reads, state=tmp_path)
    assert found.configuration().place == str(file)
    with pytest.raises(PermanentError, match="this is no pod"):
        configuring_of(file, "dstream/dstream-config", judge=check, reads=reads, state=tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(ConfigurationError, match="NAMESPACE/NAME"):
        configuring_of(file, "dstream-config", judge=check, reads=reads, state=tmp_path)
    found = configuring_of(file, "dstream/dstream-config", judge=check, reads=reads, state=tmp_path)
    assert isinstance(found._place, ConfigMapPlace)


def test_no_file_that_a_text_names_is_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # whoever opens it waits for ever
    text = FILE.replace('name = "ingest-queue"', f'name = "ingest-queue"\n\t\tca_file = "{tmp_path}/pipe"')
    assert judge(text, "dstream.hcl", {"BUS": BUS}) == []
