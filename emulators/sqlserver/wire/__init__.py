"""TDS 7.4 without sockets: packets, handshake, requests in, tokens out (Microsoft's open specification MS-TDS)."""
