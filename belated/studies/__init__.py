"""Studies: what to simulate, as data, and what to make of it."""
