"""The one answer no verb gives: it was killed."""

from __future__ import annotations

from handoff.base.errors import HandoffError


class Killed(HandoffError):
    """The verb was killed before it could answer."""
