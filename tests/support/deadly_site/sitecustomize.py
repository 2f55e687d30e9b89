"""Read by every interpreter that has this folder on its path: monitors and agents die at the points of the environment."""

from __future__ import annotations

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

if os.environ.get("DEADLY_POINTS"):
    import deadly

    deadly.arm(os.environ["DEADLY_POINTS"].split(","), os.environ["DEADLY_FOLDER"])
