"""Policies: each a short ``compose(engine, r, now)`` over the verbs of the engine."""
