"""What people and programs touch: they translate and decide nothing."""
