"""Which of the SDK's own tests fail against the emulator, and why. One that passes after all fails the test that reads this list.

Names are those of the file, the class left out; a test and its asynchronous form, which has the same name but for `async`, are two.
"""

from __future__ import annotations

from typing import Final

_NOT_THERE: Final = "asks for express or partitioned entities or for authorization rules of one: refused by name"
_PREMIUM: Final = (
    "expects a Standard namespace to refuse maxMessageSizeInKilobytes; the emulator takes what Premium takes"
)
_CYCLE: Final = "forwards a subscription to its own topic; the emulator refuses what comes back to itself"
_NAMELESS: Final = "asks for an entity without a name, where the emulator shows its page"
_PARTITION: Final = "asks for a partitioned queue: refused by name"
_TIMEOUT: Final = "expects an unnamed session to be waited for 65 s whatever the client asks; the emulator waits as long as it is asked"

_MANAGEMENT: Final = {
    "queue": {
        "queue_create_with_queue_description": _NOT_THERE,
        "queue_update_success": _NOT_THERE,
        "queue_get_runtime_properties_negative": _NAMELESS,
        "queue_basic_v2017_04": _PREMIUM,
    },
    "topic": {
        "topic_create_with_topic_description": _NOT_THERE,
        "topic_update_success": _NOT_THERE,
        "topic_basic_v2017_04": _PREMIUM,
    },
    "subscription": {"subscription_update_success": _CYCLE},
}
"""By kind of entity; each test is there in two forms."""

KNOWN_FAILURES: Final[dict[str, str]] = {
    f"test_mgmt_{kind}s{file}::test_{form}mgmt_{name}": reason
    for kind, tests in _MANAGEMENT.items()
    for name, reason in tests.items()
    for file, form in (("", ""), ("_async", "async_"))
} | {
    "test_mgmt_queues::test_mgmt_queue_update_dict_success": _NOT_THERE,
    "test_mgmt_queues_async::test_mgmt_queue_async_update_dict_success": _NOT_THERE,
    "test_mgmt_topics::test_mgmt_topic_update_dict_success": _NOT_THERE,
    "test_mgmt_topics_async::test_mgmt_topic_async_update_dict_success": _NOT_THERE,
    "test_mgmt_subscriptions::test_mgmt_sub_update_dict_success": _CYCLE,
    "test_mgmt_subscriptions_async::test_mgmt_sub_async_update_dict_success": _CYCLE,
    "test_message::test_message_backcompat_receive_and_delete_databody": "expects an empty section of delivery annotations",
    "test_message::test_message_property": "the SDK cannot read the decimal128 that it writes; the service seems to write it anew",
    "test_sessions::test_session_partition_batch": _PARTITION,
    "test_sessions_async::test_async_session_partition_batch": _PARTITION,
    "test_sessions::test_next_available_session_timeout_value": _TIMEOUT,
    "test_sessions_async::test_async_next_available_session_timeout_value": _TIMEOUT,
}

_SEEN: Final = {
    "sb_client_bad_credentials": "ServiceBusConnectionError (amqp:client-error) in place of ServiceBusAuthenticationError",
    "sb_client_bad_entity": "is told that the entity is not there, where the service first says that it may not be asked",
    "sb_client_incorrect_queue_conn_str": "a connection of its own to port 5671",
    "client_sas_credential": "ServiceBusConnectionError (amqp:client-error) for a bad signature",
    "client_credential": "a connection of its own to a closed port",
    "custom_endpoint_connection_verify_exception": "over WebSocket another error for a certificate that is not trusted",
}
OPEN: Final[dict[str, str]] = {
    f"test_sb_client{file}::test_{name}{form}": seen
    for name, seen in _SEEN.items()
    for file, form in (("", ""), ("_async", "_async"))
} | {
    "test_sessions::test_session_by_queue_client_conn_str_receive_handler_receiveanddelete": "the session's lock of five"
    " seconds ends while the client waits in receive-and-delete",
}
"""What fails and is not yet explained: what is seen, the client's or the emulator's fault."""
