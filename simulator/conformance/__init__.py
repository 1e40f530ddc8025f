"""Replay schedules recorded from a real engine and compare them step by step."""
