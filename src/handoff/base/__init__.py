"""Ground floor: what every room stands on. Imports nothing of ours."""
