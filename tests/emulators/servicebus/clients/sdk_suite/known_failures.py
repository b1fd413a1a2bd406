"""Which of the SDK's own tests fail against the emulator, and why. One that passes after all fails the test that reads this list.

Names are those of the file, the class left out; a test and its asynchronous form, which has the same name but for `async`, are two.
"""

from __future__ import annotations

from typing import Final

_NOT_THERE: Final = "asks for express or partitioned entities or for authorization rules of one: refused by name"
_PARTITION: Final = "asks for a partitioned queue: refused by name"
_CLIENTS: Final = (
    "expects receive_messages(max_wait_time=5) to wait 65 s for a session; this version of the SDK itself stops opening"
    " the link after those 5 s (Azure/azure-sdk-for-python pull request 48698)"
)
_OLD_STANDIN: Final = "puts in place of a method of the SDK one that does not know its newest argument, await_outcome"
_OLD_LOCK: Final = "expects a lock of 60 s to end 40 s after it was renewed; its synchronous form waits for the end"
_DECIMAL: Final = (
    "the SDK reads a decimal128 as .NET's AMQP library writes it, the bits of the exponent elsewhere than in IEEE 754 and in"
    " what it writes itself; the service writes properties anew, the emulator hands them on as they came"
)

_MANAGEMENT: Final = {
    "queue": ("queue_create_with_queue_description", "queue_update_success"),
    "topic": ("topic_create_with_topic_description", "topic_update_success"),
}
"""By kind of entity; each test is there in two forms."""

KNOWN_FAILURES: Final[dict[str, str]] = {
    f"test_mgmt_{kind}s{file}::test_{form}mgmt_{name}": _NOT_THERE
    for kind, tests in _MANAGEMENT.items()
    for name in tests
    for file, form in (("", ""), ("_async", "async_"))
} | {
    "test_mgmt_queues::test_mgmt_queue_update_dict_success": _NOT_THERE,
    "test_mgmt_queues_async::test_mgmt_queue_async_update_dict_success": _NOT_THERE,
    "test_mgmt_topics::test_mgmt_topic_update_dict_success": _NOT_THERE,
    "test_mgmt_topics_async::test_mgmt_topic_async_update_dict_success": _NOT_THERE,
    "test_message::test_message_property": _DECIMAL,
    "test_sessions::test_session_partition_batch": _PARTITION,
    "test_sessions_async::test_async_session_partition_batch": _PARTITION,
    "test_queues::test_queue_operation_negative": _OLD_STANDIN,
    "test_queues_async::test_async_queue_operation_negative": _OLD_STANDIN,
    "test_sessions_async::test_async_session_by_servicebus_client_renew_client_locks": _OLD_LOCK,
    "test_sessions::test_next_available_session_timeout_value": _CLIENTS,
    "test_sessions_async::test_async_next_available_session_timeout_value": _CLIENTS,
}

_SAME_SECONDS: Final = (
    "waits as many seconds for more messages of a session as the session's lock lasts; at the service the lock did not end under"
    " a waiting receiver until May 2026 (Azure/azure-service-bus issue 694)"
)
RACES: Final[dict[str, str]] = {
    "test_sessions::test_session_by_queue_client_conn_str_receive_handler_receiveanddelete": _SAME_SECONDS,
    "test_sessions_async::test_async_session_by_queue_client_conn_str_receive_handler_receiveanddelete": _SAME_SECONDS,
    "test_queues::test_queue_receive_handler_with_autolockrenew_many_msgs": "the SDK's renewer spins over 300 messages in the process"
    " that the emulator is in: on a busy machine they come too late",
}
"""What passes or fails as the two ends of a race come."""
