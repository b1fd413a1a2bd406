"""Clients' connections: octets and messages over a socket, the handshake, the requests. They know the engine by its port alone."""
