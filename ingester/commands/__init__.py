"""What `dstream status` and `dstream offsets` do of stage 1: settings to the stores, and to values that are printed."""
