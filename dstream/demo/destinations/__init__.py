"""Where the demo can send beside topics of Service Bus: the server, the block of the output, and a reader of that end."""
