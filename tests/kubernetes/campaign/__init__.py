"""DStream in a cluster under load, while pods, nodes and the API server are taken away; each case ends with the demo's verdict."""
