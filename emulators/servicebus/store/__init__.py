"""The messages of one place: ready, locked, deferred, scheduled; competing consumers, sessions, forwarding. Knows no wire."""
