"""Locks as leases on blobs."""
