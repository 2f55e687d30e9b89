"""Git's own objects, refs and settings: the only place that talks to git below the level of a commit."""
