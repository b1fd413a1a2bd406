"""A world in memory with a clock that only moves when everybody waits: thousands of snapshots, with their kills, in seconds.

The loop, the drain, the chunk drain and the encoder are the product's. The ports below them, the queue and the consumer are models.
"""
