"""Nothing is lost and nothing happens unseen: snapshots, safe commits, incidents."""
