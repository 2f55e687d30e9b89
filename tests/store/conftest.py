"""The store is tested on both databases."""

from databases import database, place, postgres_server  # noqa: F401
