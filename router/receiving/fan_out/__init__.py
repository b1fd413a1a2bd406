"""Fan-out: one received message goes to several outputs, and none of them waits for another."""
