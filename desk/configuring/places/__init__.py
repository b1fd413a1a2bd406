"""Where a configuration is kept: a file, or a ConfigMap."""
