"""Bytes that steps read, by hand."""

from __future__ import annotations

import pytest
from recordings import recording, req, step

from cost_models.catalog import model
from cost_models.parallelism import Parallelism
from simulator.metrics.hardware import bytes_read
from simulator.metrics.latency import population


def test_experts_that_no_token_chose_are_not_read():
    """gpt-oss-120b, 128 experts and 4 per token: 1 token reads 4 of them, 2 tokens 7.875.

    The second token misses the first one's 4 experts with 1 − 4/128 each:
    128·(1 − (124/128)²) = 4 + 4·124/128 = 7.875.
    """
    shape = model("gpt-oss-120b")
    requests = [req(0.0, 4, 3, admitted=0.0, first=1.0, finished=3.0)]
    rec = recording(requests, [step(0, 1, scheduled_tokens=1), step(1, 2, scheduled_tokens=2)])
    read = bytes_read(rec, population(rec), shape, Parallelism())
    embedding = shape.vocab_size * shape.hidden_size * 2  # looked up, not read
    dense = shape.weight_bytes() - shape.expert_bytes() - embedding
    assert read == pytest.approx(2 * dense + shape.expert_bytes() * (4 + 7.875) / 128)
