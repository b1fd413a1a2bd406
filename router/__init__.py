"""Stage 2: from the ingest queue to one topic per table."""
