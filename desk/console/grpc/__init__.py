"""The desk as gRPC: `api/dstream.proto` offered by grpcio. It decides nothing that the HTTP API would decide otherwise."""
