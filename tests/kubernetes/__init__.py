"""DStream on a real Kubernetes that runs on this machine. Nothing here is part of `make test`; see `make kubernetes` and `make manifests`."""
