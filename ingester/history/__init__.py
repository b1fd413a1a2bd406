"""Snapshots of the rows that tables hold now: values and ports. The driver decides about them, tasks read and send."""
