"""Routes: which outputs get a message. Decides only."""
