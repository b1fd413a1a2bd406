"""Azure Service Bus behind the ports of common/bus/."""
