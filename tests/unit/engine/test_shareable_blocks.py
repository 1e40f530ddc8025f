"""Which blocks of a prompt another request can ever look for."""

from __future__ import annotations

import pytest
from engine_cases import table

from simulator.kv_cache.prefix import ALL_BLOCKS, output_tag, own_tag
from simulator.kv_cache.shareable import shareable_blocks

SYSTEM, TOOLS, DOCUMENT = 0, 1, 2

# The pieces of four prompts of 40 tokens and how many of their blocks of 4 others may share.
WORKLOADS = {
    "nothing in common": ([[], [], [], []], [0, 0, 0, 0]),
    # 10 tokens are two full blocks; what follows is each one's own.
    "a common system prompt": ([[(SYSTEM, 10)]] * 3 + [[]], [2, 2, 2, 0]),
    "a document of one behind it": (
        [[(SYSTEM, 8), (DOCUMENT, 20), (TOOLS, 4)], [(SYSTEM, 8), (TOOLS, 4)], [], []],
        [2, 3, 0, 0],
    ),
    # The same piece twice in one prompt is still only that prompt's.
    "a repetition": ([[(TOOLS, 8), (TOOLS, 8)], [], [], []], [0, 0, 0, 0]),
    # Request 1 repeats prompt and answer of request 0; nobody repeats what it adds.
    "a second turn": ([[], [(own_tag(0), 12), (output_tag(0), 9)], [], []], [ALL_BLOCKS, 5, 0, 0]),
    "three turns": (
        [
            [(SYSTEM, 8)],
            [(SYSTEM, 8), (output_tag(0), 4)],
            [(SYSTEM, 8), (output_tag(0), 4), (own_tag(1), 4), (output_tag(1), 4)],
            [],
        ],
        [ALL_BLOCKS, ALL_BLOCKS, 5, 0],
    ),
    # It names its own piece, which is no one else's for that.
    "its own piece by name": ([[(own_tag(0), 8)], [], [], []], [0, 0, 0, 0]),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_blocks_that_others_may_look_for(name):
    pieces, expected = WORKLOADS[name]
    requests = table(*[(0.0, 40, 8)] * 4, pieces=pieces)
    assert shareable_blocks(requests, 4).tolist() == expected
