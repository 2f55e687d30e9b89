"""The hunting machine: random journeys over the real verbs, and the invariants that none of them may breach."""
