"""The console: one process with the page, the HTTP API and gRPC above the ports of `desk.py`. It decides who may ask, and writes down who changed."""
