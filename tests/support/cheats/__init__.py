"""Cheats as data, honest controls, and the ground on which the product's own judge is asked about both."""
