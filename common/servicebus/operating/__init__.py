"""What `dstream status` asks of a namespace, over the management API. Changes nothing."""
