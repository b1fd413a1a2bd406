"""Where slices run until Spark has started: in a process that the driver forks, and that ends then."""
