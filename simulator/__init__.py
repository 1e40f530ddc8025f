"""Everything that happens in simulated time."""
