"""Contiguous and buddy reservations against maps of blocks, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import fleet, run, table
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.kv_cache import buddy, contiguous
from simulator.metrics.memory import reserved_tokens

N = 24


class FirstFit:
    """The first gap that is long enough, in a map of used blocks."""

    def __init__(self, usable):
        self.used = np.zeros(usable, bool)

    def size(self, blocks):
        return blocks

    def take(self, blocks):
        for start in range(len(self.used) - blocks + 1):
            if not self.used[start : start + blocks].any():
                self.used[start : start + blocks] = True
                return start
        return None

    def give_back(self, start, blocks):
        self.used[start : start + blocks] = False

    def largest(self):
        pieces = "".join("x" if used else "." for used in self.used).split("x")
        return max(map(len, pieces))


class BuddyLists:
    """Free lists by size, splitting and merging as Knuth has it."""

    def __init__(self, usable):
        self.free = {}
        start = 0
        for k in range(usable.bit_length() - 1, -1, -1):  # 20 = 16 + 4
            if usable >> k & 1:
                self.free.setdefault(1 << k, set()).add(start)
                start += 1 << k

    def size(self, blocks):
        size = 1
        while size < blocks:
            size *= 2
        return size

    def take(self, blocks):
        want = self.size(blocks)
        large = [size for size in sorted(self.free) if size >= want and self.free[size]]
        if not large:
            return None
        size = large[0]
        start = min(self.free[size])
        self.free[size].remove(start)
        while size > want:
            size //= 2
            self.free.setdefault(size, set()).add(start + size)
        return start

    def give_back(self, start, blocks):
        size = self.size(blocks)
        while start ^ size in self.free.get(size, ()):
            self.free[size].remove(start ^ size)
            start, size = min(start, start ^ size), 2 * size
        self.free.setdefault(size, set()).add(start)

    def largest(self):
        return max((size for size, starts in self.free.items() if starts), default=0)


@pytest.mark.parametrize(("allocator", "model"), [("contiguous", FirstFit), ("buddy", BuddyLists)])
@settings(max_examples=150, deadline=None)
@given(st.integers(1, 40), st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), max_size=60))
def test_reservations_lie_where_the_textbook_puts_them(allocator, model, usable, actions):
    # Each action releases one reservation (its number, if there is one) and makes another.
    engine = fleet(
        table(*[(0.0, 1, 1)] * N), allocator=allocator, usable_blocks=usable,
        max_num_seqs=N, max_model_len=1 << 20,
    ).engine  # fmt: skip
    expected = model(usable)
    held = {}
    for blocks, number in actions:
        if number < len(held):
            row = list(held)[number]
            contiguous.release(engine, 0, row)
            expected.give_back(*held.pop(row))
        row = next((k for k in range(N) if k not in held), None)
        if row is None:
            continue
        size = expected.size(blocks)
        place, start = contiguous.find_place(engine, 0, size)
        where = expected.take(blocks)
        assert (place == contiguous.FULL) == (where is None)
        if where is not None:
            engine.requests[row].reserve_blocks = size
            contiguous.reserve(engine, 0, row, place, start)
            assert engine.requests[row].extent_start == start == where
            held[row] = (start, blocks)
        assert engine.replicas[0].extents == len(held)
        assert contiguous.largest_gap(engine, 0) == expected.largest()


def test_sizes_of_buddies():
    assert buddy.rounded(np.array([1, 2, 3, 4, 5, 1 << 20, (1 << 20) + 1])).tolist() == [
        1, 2, 4, 4, 8, 1 << 20, 1 << 21
    ]  # fmt: skip
    assert [buddy.largest(blocks) for blocks in (1, 2, 3, 4, 7, 8, 20)] == [1, 2, 2, 4, 4, 8, 16]


# Blocks of 2, 10 of them.  r0 and r1 declare 2 + 4 tokens (3 blocks) and make 2 and 1; r2, the
# third, makes 1.  A step of m tokens lasts 1 + m/4 s.
ROWS = ((0.0, 2, 2), (0.0, 2, 1), (0.0, 2, 1))
POOL = {"block_size": 2, "usable_blocks": 10, "max_model_len": 20}


@pytest.mark.parametrize(
    ("allocator", "blocks", "tokens"),
    [
        # [0,3) [3,6) [6,9) at once: 9 blocks for 18 tokens; then r0 has 3 for 6.
        ("contiguous", [9, 3], [18, 6]),
        # 4, 3 and 3 tokens: 2 blocks each.
        ("contiguous_oracle", [6, 2], [10, 4]),
        # 4 blocks each, at 0 and 4; of 8 and 9 no 4 can be had: r2 takes r1's place.
        ("buddy", [8, 8], [12, 12]),
    ],
)
def test_reservations_by_hand(allocator, blocks, tokens):
    done = run(table(*ROWS, max_tokens=[4] * 3), allocator=allocator, events=True, **POOL)
    steps = done.recording.steps
    assert steps.kv_blocks.tolist()[: len(blocks)] == blocks
    assert reserved_tokens(done.recording).tolist()[: len(tokens)] == tokens


def test_a_buddy_pool_refuses_what_no_piece_holds():
    # 6 + 3 tokens need 5 blocks of 2, so a piece of 8; the largest of 7 blocks is 4.
    done = run(table((0.0, 6, 1), max_tokens=[3]), allocator="buddy", block_size=2,
               usable_blocks=7)  # fmt: skip
    assert done.recording.outcome.reject_reason.tolist() == [2]
    (said,) = done.fleet.explain_limits()
    assert "up to 9 tokens needs 8 KV blocks at once, the replica has 4 in one piece" in said
