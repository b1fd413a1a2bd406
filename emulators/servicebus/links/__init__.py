"""What clients' links lead to: sending, receiving, sessions, `$cbs` and `$management`."""
