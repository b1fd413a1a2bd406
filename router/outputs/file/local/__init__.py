"""Files in a directory of this machine, or of a file system that several machines share."""
