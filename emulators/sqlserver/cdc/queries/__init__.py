"""What a client asks for: the functions over change tables, and who may."""
