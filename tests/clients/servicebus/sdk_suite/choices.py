"""Which of the SDK's own tests run when: a short form in every run of the tests, everything else in the long one.

Left out of both are tests that ask no service: of the SDK's own parsing and state machines (`unittests`, batch sizes, tracing).
"""

from __future__ import annotations

from typing import Final

SHORT: Final = (
    ("mgmt_tests",),
    ("test_message.py::TestServiceBusMessageBackcompat", "test_list_sessions.py::TestServiceBusListSessions"),
    (
        "test_queues.py",
        "-k",
        " or ".join((
            "browse_messages_client", "browse_empty_messages", "fail_send_messages", "message_batch_large",
            "amqp_over_websocket", "broken_receiver_link",
        )),
    ),
    (
        "test_sessions.py",
        "test_topic.py",
        "test_sb_client.py",
        "-k",
        " or ".join((
            "handler_peeklock_abandon", "browse_messages_with_receiver", "partially_invalid_autolockrenew_mode",
            "non_session_send_to_session_queue", "send_basic", "writeonly_credentials", "with_ssl_context",
        )),
    ),
)  # fmt: skip
"""Arguments of pytest, a process each: those that need little more than two seconds each."""

_NOT_MINUTES: Final = ("-k", "not (keep_conn_alive or large_messages_w_sleep)")
"""These sleep for more than five minutes each, by design."""

LONG: Final = (
    ("test_queues.py", *_NOT_MINUTES),
    ("test_sessions.py", "test_list_sessions.py"),
    ("test_subscriptions.py", "test_topic.py", "test_sb_client.py", *_NOT_MINUTES),
    ("async_tests/test_queues_async.py", *_NOT_MINUTES),
    ("async_tests/test_sessions_async.py", "async_tests/test_list_sessions_async.py"),
    (
        "async_tests/test_topic_async.py",
        "async_tests/test_subscriptions_async.py",
        "async_tests/test_sb_client_async.py",
        *_NOT_MINUTES,
    ),
)
"""The same; they sleep more than they work, most of half an hour."""
