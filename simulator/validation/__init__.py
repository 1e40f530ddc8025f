"""Predictions beside measured serving results, and how far off they are."""
