"""Octets between a socket and the AMQP state machine, as they are or inside a WebSocket."""
