"""What the engine's tests share: a relay on each database, and one where the database plays no part."""

from databases import place, postgres_server  # noqa: F401 - fixtures
from relay_ground import file_ground, ground  # noqa: F401 - fixtures
