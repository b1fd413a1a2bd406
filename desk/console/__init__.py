"""The console: a page, an HTTP API and gRPC above the ports of `desk/desk.py`."""
