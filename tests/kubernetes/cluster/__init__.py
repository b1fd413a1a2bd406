"""A real Kubernetes on one machine: the control plane here, each node in a network namespace of its own. Needs root, Go and Debian's packages.

No image registry is involved: programs are compiled from Go modules once, images are loaded from archives. It is for tests: it keeps no
secrets, accepts network policies without enforcing them, and while it runs any user of this machine can become its administrator through etcd.
"""
