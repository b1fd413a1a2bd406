"""The output `webhook`: each change as a signed HTTP request."""
