"""What tests stand on: helpers, settings and data that are test too, and what may not be planted beside them."""
