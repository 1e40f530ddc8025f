"""Statistical twins of recorded traces, to share a workload without its data."""
