"""The HTTP API of the console: `/api/v1` in FastAPI, which also describes it. Decides nothing of changes; see `audited.py` for these."""
