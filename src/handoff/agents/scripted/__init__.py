"""The packaged agent that plays a script: no model, no cost."""
