"""What the engine's tests share: a relay on each database, and one where the database plays no part."""

from relay_ground import file_ground, ground, nursery  # noqa: F401 - fixtures
