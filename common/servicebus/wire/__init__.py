"""Messages as AMQP octets, and the SDK's own messages."""
