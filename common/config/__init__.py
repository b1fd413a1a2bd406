"""`dstream.hcl` into validated settings."""
