"""AMQP 1.0 without I/O: values, performatives, frames, and the state of connections, sessions and links."""
