"""Rows of who works: sessions, leases, pauses, hosts, what it cost."""
