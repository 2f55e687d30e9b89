"""handoff: the relay between AI coding sessions."""

__version__ = "0.1.0"
