"""The output `nats`: each change as a message of a JetStream stream."""
