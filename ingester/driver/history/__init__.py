"""The driver's side of snapshots: which rounds are read, when, and what their results mean."""
