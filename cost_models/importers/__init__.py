"""Readers of measured kernel profiles; each gives a `Profile`."""
