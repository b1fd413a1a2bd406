"""Publishers of topics: made, found, opened, and whose turn it is to send."""
