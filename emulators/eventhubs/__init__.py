"""Azure Event Hubs, emulated: AMQP 1.0 for unmodified clients, on what the Service Bus emulator has of that protocol."""
