"""What the desk shows and takes, as documents: one form for the page, the HTTP API and gRPC. Values only."""
