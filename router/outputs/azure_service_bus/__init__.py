"""Topics or queues of Azure Service Bus."""
