"""Answers from several runs of one scenario."""
