"""Coding clients on this machine: what they can do, their settings, the tools they are served."""
