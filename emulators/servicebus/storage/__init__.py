"""What a namespace keeps on disk, and how it is read back."""
