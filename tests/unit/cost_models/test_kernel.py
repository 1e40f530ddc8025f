"""`step_time`: hand arithmetic on small tables, the ends of tables, plain against compiled."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from cost_models import StepCost, kernel
from cost_models.errors import InputError
from cost_models.kernel import CostTables, step_time
from cost_models.step_cost import Batch


def tables(longest: float = 0.0, **coef: float) -> CostTables:
    """Tables with easy numbers: 10 + m per token count, 1/4 per sequence, 8·B·2^j attention."""
    values = np.zeros(kernel.NUM_COEF)
    for name, value in coef.items():
        values[getattr(kernel, name)] = value
    return CostTables(
        tokens_s=10.0 + np.arange(9.0),
        decode_tokens_s=np.array([0.0, 11.0, 12.0, 14.0, 14.0]),
        logits_s=np.arange(5) * 0.25,
        decode_attention_s=np.column_stack(
            [8.0 * np.arange(5.0)[:, None] * 2.0 ** np.arange(4)[None, :], np.full(5, longest)]
        ),
        coef=values,
    )


def price(cost: CostTables, contexts: list[int], chunks: list[tuple[int, int]]) -> float:
    gpu_s, _ = step_time(cost, *Batch.of(contexts, chunks))
    return float(gpu_s)


def test_linear_is_the_sum_in_its_order_bit_for_bit() -> None:
    cost = StepCost.linear(0.0123, 1.7e-6, 3.3e-7)
    for decodes, chunk in ((1, 0), (7, 0), (0, 513), (129, 2048)):
        step = cost.step([100] * decodes, [(chunk, 50)] if chunk else [])
        seqs = decodes + (chunk > 0)
        assert step.total_s == 0.0123 + (decodes + chunk) * 1.7e-6 + seqs * 3.3e-7
        assert step.host_s == 0.0


def test_linear_goes_on_beyond_its_tables_with_the_same_bits() -> None:
    cost = StepCost.linear(0.0123, 1.7e-6, 3.3e-7)
    batch = Batch.of([64] * 40, [(999, 0)])
    assert step_time(cost.tables(8, 2), *batch) == step_time(cost.tables(4096, 64), *batch)


@pytest.mark.parametrize("constants", [(-1.0, 0.0, 0.0), (0.0, 0.0, 0.0), (float("nan"), 1.0, 0.0)])
def test_linear_refuses_what_is_no_time(constants: tuple[float, float, float]) -> None:
    with pytest.raises(InputError):
        StepCost.linear(*constants)


def test_pure_decode_runs_at_the_captured_size() -> None:
    # 3 tokens in a graph of 4 cost 14; 3·0.25 for logits; attention 8·3 at context 1.
    assert price(tables(), [1, 1, 1], []) == 14.0 + 0.75 + 24.0


def test_attention_is_straight_between_powers_of_two_of_the_mean() -> None:
    # Mean context 6 lies halfway between 4 and 8: 8·2·(4 + 8)/2 = 96.
    assert price(tables(), [5, 7], []) == 12.0 + 0.5 + 96.0
    # Beyond the last knot, 8, the last piece goes on: context 12 is 8·12 = 96 for one.
    assert price(tables(), [12], []) == 11.0 + 0.25 + 96.0


def test_attention_beyond_the_largest_batch_is_in_proportion() -> None:
    # Six at context 1: the row of four, 32, times 6/4; tokens_s and logits beyond D, N.
    cost = tables(SEQS_BASE=1.0, SEQS_SLOPE=0.5)
    assert price(cost, [1] * 6, []) == 16.0 + (1.0 + 6 * 0.5) + 48.0


def test_the_longest_context_can_set_the_pace() -> None:
    cost = tables(longest=10.0, DECODE_LONGEST_BASE=3.0)
    assert price(cost, [1, 7], []) == 12.0 + 0.5 + max(8 * 2 * 4.0, 3.0 + 70.0)
    assert price(cost, [4, 4], []) == 12.0 + 0.5 + max(8 * 2 * 4.0, 3.0 + 40.0)


def test_prefill_takes_the_longer_of_products_and_walk() -> None:
    coef = {
        "PREFILL_BASE": 0.5,
        "PREFILL_PER_AREA": 0.125,
        "PREFILL_PER_TOKEN": 0.25,
        "PREFILL_PER_SEQ": 1.0,
    }
    # Chunk 4 after 2: area 4·(2 + 2) = 16 → 2 + 1 + 1 = 4; walk none.
    assert price(tables(**coef), [], [(4, 2)]) == 14.0 + 0.25 + 0.5 + 4.0
    # A walk of 2 per token of the chunk is longer: 8.
    walking = tables(PREFILL_PER_CHUNK=2.0, **coef)
    assert price(walking, [], [(4, 2)]) == 14.0 + 0.25 + 0.5 + 8.0
    # What the chunk finds cached comes on top: 2 tokens at 3.
    paying = tables(PREFILL_PER_CHUNK=2.0, PREFILL_PER_PAST=3.0, **coef)
    assert price(paying, [], [(4, 2)]) == 14.0 + 0.25 + 0.5 + 8.0 + 6.0


def test_decodes_and_chunks_in_one_launch_save_one() -> None:
    saving = {"MIXED_SAVED": 2.0, "PREFILL_BASE": 5.0}
    assert price(tables(**saving), [1], [(2, 0)]) == 13.0 + 0.5 + 8.0 + 5.0 - 2.0
    # It takes no less than the longer of the two alone.
    saving["PREFILL_BASE"] = 1.5
    assert price(tables(**saving), [1], [(2, 0)]) == 13.0 + 0.5 + 8.0
    saving |= {"PREFILL_BASE": 20.0, "MIXED_SAVED": 9.0}
    assert price(tables(**saving), [1], [(2, 0)]) == 13.0 + 0.5 + 20.0
    assert price(tables(MIXED_SAVED=2.0), [], [(2, 0)]) == price(tables(), [], [(2, 0)])
    assert price(tables(MIXED_SAVED=2.0), [1], []) == price(tables(), [1], [])


def test_a_mixed_step_is_not_padded_to_a_graph() -> None:
    # 3 tokens, not in a decode graph: 13.
    assert price(tables(), [1], [(2, 0)]) == 13.0 + 0.5 + 8.0


def test_host_time_is_per_step_and_per_sequence() -> None:
    _, host_s = step_time(tables(HOST_BASE=2.0, HOST_PER_SEQ=0.5), *Batch.of([1, 1], [(2, 0)]))
    assert host_s == 3.5


def test_an_asynchronous_host_adds_a_gap_or_what_it_takes_beyond_the_gpu() -> None:
    # GPU 11 + 0.25 + 8 = 19.25; a host of 2.5 hides behind it, one of 20.5 does not.
    hidden = tables(HOST_BASE=2.0, HOST_PER_SEQ=0.5, HOST_GAP=0.75)
    assert step_time(hidden, *Batch.of([1], [])) == (19.25, 0.75)
    slow = tables(HOST_BASE=20.0, HOST_PER_SEQ=0.5, HOST_GAP=0.75)
    assert step_time(slow, *Batch.of([1], [])) == (19.25, 1.25)


def test_absent_parts_are_exactly_zero() -> None:
    zero = tables()._replace(tokens_s=np.zeros(9), decode_tokens_s=np.zeros(5))
    zero = zero._replace(logits_s=np.zeros(5), decode_attention_s=np.zeros((0, 0)))
    assert step_time(zero, *Batch.of([5, 6], [(2, 3)])) == (0.0, 0.0)


AGREE = """
import numpy as np
from cost_models import StepCost
from cost_models.jit import PLAIN
from cost_models.kernel import step_time
from cost_models.step_cost import Batch
assert PLAIN == {plain}
rng = np.random.default_rng(7)
costs = [StepCost.load("llama-3.1-8b", "h100_sxm"), StepCost.linear(0.011, 1.3e-5, 1e-6)]
for cost in costs:
    tables = cost.tables(2048, 256)
    for _ in range(300):
        contexts = [int(c) for c in rng.integers(1, 200000, rng.integers(0, 300))]
        chunks = [(int(c), int(p)) for c, p in rng.integers(1, 9000, (rng.integers(0, 5), 2))]
        gpu_s, host_s = step_time(tables, *Batch.of(contexts or [3], chunks))
        print(float(gpu_s).hex(), float(host_s).hex())
"""


def test_plain_and_compiled_forms_agree_bit_for_bit() -> None:
    answers = []
    for plain in (False, True):
        environment = {**os.environ, "SERVECAST_PLAIN": "1" if plain else ""}
        done = subprocess.run(
            [sys.executable, "-c", AGREE.format(plain=plain)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append(done.stdout)
    assert answers[0] == answers[1]
    assert len(answers[0].splitlines()) == 600


@pytest.mark.parametrize("contexts", [[0], [-3]])
def test_a_context_below_one_is_refused(contexts: list[int]) -> None:
    with pytest.raises(InputError, match="1 or more"):
        StepCost.linear(1.0, 0.0).step(contexts)


def test_an_empty_step_and_a_bad_chunk_are_refused() -> None:
    cost = StepCost.linear(1.0, 0.0)
    with pytest.raises(InputError, match="empty step"):
        cost.step()
    with pytest.raises(InputError, match="chunk"):
        cost.step([], [(0, 5)])


def test_aggregates_of_a_step() -> None:
    batch = Batch.of([10, 20], [(4, 6), (2, 0)])
    # Areas: 4·(6 + 2) + 2·(0 + 1) = 34; keys: 10 + 2.
    assert batch == Batch(8, 2, 30, 20, 2, 6, 34.0, 12, 4)
