"""Where sessions work and what they leave: folders, clones, landing, publishing, traces."""
