"""Everything that asks git or writes with it."""
