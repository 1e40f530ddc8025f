"""Everything that happens in seconds per step."""
