"""What outputs share that apply changes to rows instead of passing messages on: what a message says of a row, its key, its position. Pure."""
