"""gRPC over a lively desk in memory, by clients that are generated from `api/dstream.proto`."""
