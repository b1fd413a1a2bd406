"""What the Service Bus emulator knowingly does not imitate, each with its reason: the only place where that is written.

A key is the name of a test or name[case] for one case of it. A gap that has closed fails the run (XPASS), and so does a name
that no test has. On a real namespace the list means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

_NO_PARTITIONS = "enable_partitioning is refused by name: there is one broker and one store, nothing to partition over"

GAPS: Mapping[str, str] = {
    "test_an_entity_has_policies_of_its_own": "policies are the namespace's; rules of single entities are refused by name",
    "test_a_transaction_may_be_begun": "transactions are refused by name: azure-servicebus for Python has none, and so has nobody who tests here",
    "test_numbers_of_a_partitioned_queue_begin_with_the_partition": _NO_PARTITIONS,
    "test_a_partitioned_queue_says_so_and_stays_so": _NO_PARTITIONS,
    "test_a_batch_of_several_partition_keys_is_refused_by_a_partitioned_queue": _NO_PARTITIONS,
}
