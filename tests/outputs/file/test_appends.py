"""What becomes of an addition to a blob whose answer is lost, and of several processes that add to one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
from azure.storage.blob import BlobServiceClient, ContainerClient

from common.errors import EntityMissing, Throttled, TransientError
from router.outputs.file.blob.journal import BlobJournal
from router.outputs.file.blob.store import BlobStore
from router.outputs.file.rolling import Limits
from tests.azurite.proxy import Answer, Proxy
from tests.azurite.server import Azurite, connection_string, missing

FOLDER = "shop/dbo.Persons"
LSN = "0000003600000b200003"
LIMITS = Limits(1_000, timedelta(minutes=5))
LONG = 60.0
APPEND = "comp=appendblock"


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    if reason := missing():
        pytest.skip(reason)
    with Azurite() as azurite, Proxy(azurite.port) as proxy:
        yield proxy


@pytest.fixture
def container(proxy: Proxy) -> Iterator[ContainerClient]:
    proxy.answer, proxy.only = None, ""
    with BlobServiceClient.from_connection_string(connection_string(proxy.port), retry_total=0) as service:
        yield service.create_container(f"changes-{uuid4()}")
        proxy.answer = None


def store(container: ContainerClient, proxy: Proxy) -> BlobStore:
    service = BlobServiceClient.from_connection_string(connection_string(proxy.port), retry_total=0)
    return BlobStore(service, container.container_name, where="here", ending="jsonl", limits=LIMITS)


def add(journal: BlobJournal, *lines: bytes, seconds: float = LONG) -> None:
    journal.append(b"".join(line + b"\n" for line in lines), lsn=LSN, seconds=seconds)


def held(container: ContainerClient) -> dict[str, bytes]:
    """Files of the folder, finished or not, by name."""
    names = [blob.name for blob in container.list_blobs() if not blob.name.endswith("/head")]
    return {name: container.download_blob(name).readall() for name in names}


def test_an_addition_whose_answer_was_lost_is_there_once(container: ContainerClient, proxy: Proxy) -> None:
    journal = store(container, proxy).journal(FOLDER)
    add(journal, b"1")
    lost: list[str] = []

    def meet(told: str) -> Answer | None:
        if APPEND in told and not lost:
            lost.append(told)
            return Answer(None, after=True)
        return None

    proxy.meet = meet
    try:
        add(journal, b"2")
    finally:
        proxy.meet = lambda told: None
    add(journal, b"3")

    assert len(lost) == 1
    assert list(held(container).values()) == [b"1\n2\n3\n"]


def test_an_addition_in_doubt_is_settled_by_the_next_call(container: ContainerClient, proxy: Proxy) -> None:
    journal = store(container, proxy).journal(FOLDER)
    add(journal, b"1")
    proxy.answer, proxy.only = Answer(None, after=True), APPEND
    with pytest.raises(TransientError, match=r"no answer|took too long"):
        add(journal, b"2", seconds=0)
    journal.close()
    proxy.answer = None

    add(journal, b"2")
    add(journal, b"3")

    assert list(held(container).values()) == [b"1\n2\n3\n"]


def test_several_processes_add_to_one_file_in_turn(container: ContainerClient, proxy: Proxy) -> None:
    journals = [store(container, proxy).journal(FOLDER) for _ in range(3)]

    for number in range(12):
        add(journals[number % 3], b"%d" % number)

    (lines,) = held(container).values()
    assert lines.split() == [b"%d" % number for number in range(12)]


def test_a_sealed_file_gets_no_line_of_a_process_that_had_it_open(container: ContainerClient, proxy: Proxy) -> None:
    one, two, third = (store(container, proxy) for _ in range(3))
    first, second = one.journal(FOLDER), two.journal(FOLDER)
    add(first, b"1")
    add(second, b"2")
    (staged,) = third.staged()
    third.seal(staged)
    add(first, b"3")
    (sealed, _) = third.staged()
    assert third.finish(sealed, None)
    assert not third.finish(sealed, None)
    add(second, b"4")

    names = sorted(held(container))
    assert [held(container)[name] for name in names] == [b"3\n4\n", b"1\n2\n"]
    assert names[0].startswith("_open/")
    assert names[1] == f"{FOLDER}/{sealed.name.day}/{sealed.name}"


def test_a_busy_account_and_a_missing_container_are_told_apart(container: ContainerClient, proxy: Proxy) -> None:
    journal = store(container, proxy).journal(FOLDER)
    proxy.answer, proxy.only = Answer(503, "ServerBusy"), ""
    with pytest.raises(Throttled):
        add(journal, b"1")
    proxy.answer = None
    container.delete_container()

    with pytest.raises(EntityMissing, match="ContainerNotFound"):
        add(journal, b"1")
    with pytest.raises(EntityMissing):
        store(container, proxy).ready()
