"""A real Kubernetes on one machine: the control plane here, each node in a network namespace of its own. Needs root, Go and Debian's packages.

No image registry is involved: programs are compiled from Go modules once, images are loaded from archives. It is for tests and keeps no
secrets: whoever is root here is its administrator. Network policies are accepted and not enforced.
"""
