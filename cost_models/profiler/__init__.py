"""Micro-benchmarks that make a kernel profile on the user's own GPU (extra ``profile``).

`cases` says what to measure, `products`, `attention` and `collectives` make the calls, `clock`
times them, and `measure` writes one row of our own CSV form as soon as it is known.
"""
