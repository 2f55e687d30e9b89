"""The long-lived process: durable runs, the watchdog, notifications, services, the database it serves."""
