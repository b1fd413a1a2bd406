"""How changes are written on their topics: the envelopes of an output. Empty: import what you need by its name."""
