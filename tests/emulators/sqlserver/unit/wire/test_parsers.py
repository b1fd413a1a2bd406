"""PRELOGIN, LOGIN7, RPC and transaction requests: read when well-formed, refused when not, never anything else."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.wire import login7, prelogin, rpc, transactions
from emulators.sqlserver.wire.errors import ProtocolError
from emulators.sqlserver.wire.transactions import Action, Begin, TransactionRequest

HEADERS = struct.pack("<IIHQI", 22, 18, 2, 0, 1)
INT_5 = b"\x00\x00\x26\x04\x04\x05\x00\x00\x00"


def login(features: bytes | None = None, option2: int = 0) -> bytes:
    """LOGIN7 of user "u", password "p\u20ac", database "d", host "h"."""
    hidden = bytes(((b << 4 & 0xF0) | b >> 4) ^ 0xA5 for b in "p\u20ac".encode("utf-16-le"))
    texts = {36: "h".encode("utf-16-le"), 40: "u".encode("utf-16-le"), 44: hidden, 68: "d".encode("utf-16-le")}
    body = bytearray(94)
    data = b""
    for at, value in texts.items():
        struct.pack_into("<HH", body, at, 94 + len(data), len(value) // 2)
        data += value
    if features is not None:
        body[27] |= 0x10
        struct.pack_into("<HH", body, 56, 94 + len(data), 4)
        data += struct.pack("<I", 94 + len(data) + 4) + features
    body[25] = option2
    struct.pack_into("<III", body, 0, 94 + len(data), 0x74000004, 8000)
    return bytes(body) + data


def feature(data: bytes) -> bytes:
    """FEDAUTH in a feature block."""
    return b"\x02" + struct.pack("<I", len(data)) + data


OFFER = bytes.fromhex("00000b0006 010011 0001 ff 100000000000 00".replace(" ", ""))
EXECUTE_SQL = HEADERS + b"\xff\xff\x0a\x00\x00\x00" + INT_5 + b"\x02@\0p\0\x01\x26\x04\x00"
BEGIN = HEADERS + b"\x05\x00\x02\x00"


def test_a_prelogin_offer_is_read() -> None:
    offer = prelogin.parse(OFFER)
    assert (offer.encryption, offer.mars, offer.demands_encryption) == (prelogin.Encryption.OFF, False, False)


@pytest.mark.parametrize(("byte", "demands"), [(0, False), (1, True), (2, False), (3, True), (0x81, True)])
def test_only_on_and_required_demand_encryption(byte: int, demands: bool) -> None:
    assert prelogin.parse(OFFER[:-1] + bytes([byte])).demands_encryption is demands


def test_the_prelogin_answer_can_be_read_like_an_offer() -> None:
    for encryption in prelogin.Encryption:
        assert prelogin.parse(prelogin.answer(encryption)) == prelogin.Prelogin(encryption, mars=False)


def test_what_is_encrypted_follows_the_clients_wish_as_far_as_there_is_a_certificate() -> None:
    off, on, unsupported, required = prelogin.Encryption
    assert [prelogin.agreed(wish, tls=True) for wish in (off, on, unsupported, required)] == [off, on, unsupported, on]
    assert {prelogin.agreed(wish, tls=False) for wish in prelogin.Encryption} == {unsupported}


def test_a_login_is_read() -> None:
    read = login7.parse(login())
    request = read.request
    assert (request.user, request.password, request.database, request.host) == ("u", "p\u20ac", "d", "h")
    assert (read.tds_version, read.packet_size) == (0x74000004, 8000)
    assert (read.integrated, read.federated, read.extended) == (False, None, False)
    assert "p\u20ac" not in repr(read)


def test_integrated_and_federated_logins_are_recognised() -> None:
    assert login7.parse(login(option2=0x80)).integrated
    read = login7.parse(login(features=b"\x0a\x01\x00\x00\x00\x01" + feature(b"\x03\x02\x00\x00\x00t\x00") + b"\xff"))
    assert read.extended
    assert read.federated == login7.Federated("t", True, None)
    assert read.request.token == "t"
    assert "'t'" not in repr(read)
    assert login7.parse(login(features=b"\x0a\x01\x00\x00\x00\x01\xff")).federated is None


def test_a_token_may_come_with_a_nonce_or_later() -> None:
    with_nonce = login7.parse(login(features=feature(b"\x02\x02\x00\x00\x00t\x00" + b"n" * 32) + b"\xff"))
    assert with_nonce.federated == login7.Federated("t", False, b"n" * 32)
    assert login7.parse(login(features=feature(b"\x05\x01") + b"\xff")).federated == login7.Federated(None, True, None)


@pytest.mark.parametrize("data", [b"", b"\x02\x04\x00\x00\x00t\x00", b"\x02\x02\x00\x00\x00t\x00n", b"\x02\x01\x00"])
def test_a_token_of_another_length_than_it_says_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        login7.parse(login(features=feature(data) + b"\xff"))


@pytest.mark.parametrize("features", [b"", b"\x0a", b"\x0a\xff\xff\xff\xff\xff", b"\x0a\x01\x00\x00\x00\x01"])
def test_a_feature_block_without_an_end_is_refused(features: bytes) -> None:
    with pytest.raises(ProtocolError):
        login7.parse(login(features=features))


@pytest.mark.parametrize(("asked", "given"), [(0, 4096), (1, 512), (512, 512), (32767, 32767), (2**31, 32767)])
def test_the_packet_size_stays_within_what_tds_allows(asked: int, given: int) -> None:
    assert login7.negotiate(asked) == given


def test_a_call_by_number_has_typed_parameters() -> None:
    (call,) = rpc.parse(EXECUTE_SQL)
    assert call.name == "sp_executesql"
    first, second = call.parameters
    assert (first.name, first.type, first.value, first.output) == ("", SqlType("int"), 5, False)
    assert (second.name, second.value, second.output) == ("@p", None, True)
    assert call.ordinal("@P", 0) == call.ordinal("", 0) == 1


def test_one_message_may_hold_several_calls() -> None:
    name = b"\x01\x00x\x00\x00\x00"
    calls = rpc.parse(HEADERS + name + INT_5 + b"\xff" + name + b"\xfe" + name + INT_5 + b"\xff")
    assert [(c.name, len(c.parameters)) for c in calls] == [("x", 1), ("x", 0), ("x", 1)]


def test_more_than_2100_parameters_are_8003() -> None:
    call = HEADERS + b"\x01\x00x\x00\x00\x00"
    assert len(rpc.parse(call + INT_5 * 2100)[0].parameters) == 2100
    with pytest.raises(SqlError) as raised:
        rpc.parse(call + INT_5 * 2101)
    assert raised.value.number == 8003


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"\x05\x00\x00\x00", TransactionRequest(Action.BEGIN, "", Begin(None, ""))),
        (b"\x05\x00\x05", TransactionRequest(Action.BEGIN, "", Begin("SNAPSHOT", ""))),
        (b"\x05\x00\x02\x02a\0b\0", TransactionRequest(Action.BEGIN, "ab", Begin("READ COMMITTED", "ab"))),
        (b"\x05\x00\x02\x04a\0b\0", TransactionRequest(Action.BEGIN, "ab", Begin("READ COMMITTED", "ab"))),
        (b"\x07\x00\x00\x00", TransactionRequest(Action.COMMIT)),
        (b"\x07\x00\x00", TransactionRequest(Action.COMMIT)),
        (b"\x07\x00\x00\x01\x04\x00", TransactionRequest(Action.COMMIT, "", Begin("SERIALIZABLE", ""))),
        (b"\x08\x00\x01s\0\x00", TransactionRequest(Action.ROLLBACK, "s")),
        (b"\x08\x00\x02s\0\x00", TransactionRequest(Action.ROLLBACK, "s")),
        (b"\x08\x00\x00\x01\x00\x00", TransactionRequest(Action.ROLLBACK, "", Begin(None, ""))),
        (b"\x09\x00\x01s\0", TransactionRequest(Action.SAVE, "s")),
        (b"\x09\x00\x02s\0", TransactionRequest(Action.SAVE, "s")),
    ],
)
def test_transaction_requests_are_read_whether_names_count_characters_or_bytes(
    payload: bytes, expected: TransactionRequest
) -> None:
    assert transactions.parse(HEADERS + payload) == expected


_PARSERS: list[tuple[Callable[[bytes], Any], bytes]] = [
    (prelogin.parse, OFFER),
    (login7.parse, login()),
    (login7.parse, login(features=b"\x0a\x01\x00\x00\x00\x01\xff")),
    (rpc.parse, EXECUTE_SQL),
    (transactions.parse, BEGIN),
    (transactions.parse, HEADERS + b"\x07\x00\x00\x01\x04\x00"),
]


@given(st.sampled_from(_PARSERS), st.data())
def test_a_damaged_message_is_read_or_refused(
    parser: tuple[Callable[[bytes], Any], bytes], data: st.DataObject
) -> None:
    parse, whole = parser
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        parse(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
    except (ProtocolError, SqlError):
        return


@given(st.sampled_from(_PARSERS), st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(parser: tuple[Callable[[bytes], Any], bytes], data: bytes) -> None:
    for start in (b"", HEADERS):
        try:
            parser[0](start + data)
        except (ProtocolError, SqlError):
            continue
