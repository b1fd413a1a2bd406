"""An emulator of Azure Service Bus: AMQP 1.0 and the management API over an in-memory broker."""
