"""The package page shows README.md, where a relative path would lead nowhere: pictures and links get the project's address.

It also says which server of the MCP registry the package is: the registry takes an entry whose name stands on the package's own page.
"""

from __future__ import annotations

import os
import re

from hatchling.metadata.plugin.interface import MetadataHookInterface

ADDRESS = "https://github.com/handoff-relay/handoff"
SERVER = "io.github.handoff-relay/handoff"
_TARGET = re.compile(r"(!?)(\[[^\]]*\])\((?!https?:|#|mailto:)([^)\s]+)")
_PICTURE = re.compile(r'(<img\b[^>]*?\bsrc=")(?!https?:|data:)([^"]+)')


def page(text: str) -> str:
    """README.md with absolute addresses and the server's name, which no reader sees."""
    shown = _PICTURE.sub(lambda found: f"{found[1]}{ADDRESS}/raw/main/{found[2]}", text)
    shown = _TARGET.sub(
        lambda found: f"{found[1]}{found[2]}({ADDRESS}/{'raw' if found[1] else 'blob'}/main/{found[3]}", shown
    )
    return f"{shown}\n<!-- mcp-name: {SERVER} -->\n"


class Readme(MetadataHookInterface):  # type: ignore[misc, unused-ignore]
    """What hatchling calls while it builds a wheel or a source archive."""

    def update(self, metadata: dict[str, object]) -> None:
        """Put the page in."""
        with open(os.path.join(self.root, "README.md"), encoding="utf-8") as file:
            metadata["readme"] = {"content-type": "text/markdown", "text": page(file.read())}
