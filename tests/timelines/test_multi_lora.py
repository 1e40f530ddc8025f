"""LoRA adapters: whose requests are passed over, what is loaded, and what steps cost."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import digest, fleet, run, table

from simulator import Scenario, simulate
from simulator.errors import InputError
from simulator.workload.adapters import apart_by_adapter
from simulator.workload.content import Content, output_tag, own_tag

FREE = {"lora_load_s": 0.0, "lora_step_s": 0.0, "lora_adapter_s": 0.0, "lora_token_s": 0.0}


def adapters(*numbers):
    return np.array(numbers, np.int64)


def test_who_needs_one_adapter_too_many_is_passed_over_and_keeps_its_place():
    # One slot, steps of 1 s.  r0 (a) runs from 0 to 3.  r1 (b) may not join; r2 (a) and r3, which
    # needs none, pass it.  At 3 r0 and r2 have ended: r1 comes before r4 (a), which waits for b.
    requests = table(
        (0.0, 1, 3), (0.5, 1, 2), (0.5, 1, 2), (0.5, 1, 3), (2.5, 1, 1),
        adapter=adapters(1, 2, 1, 0, 1),
    )  # fmt: skip
    done = run(requests, "multi_lora", step_s=(1.0, 0.0, 0.0), max_loras=1, **FREE)
    assert done.times("admitted_s") == [(0.0,), (3.0,), (1.0,), (1.0,), (5.0,)]
    assert done.times("finished_s") == [(3.0,), (5.0,), (3.0,), (4.0,), (6.0,)]


def test_slots_are_filled_in_the_order_of_their_last_use_and_steps_wait_for_them():
    # Two slots, one request at a time, steps of 1 s, loads of 0.5 s.  a and b are loaded; a is
    # used again; c then takes the slot of b, and b, coming back, that of a.
    requests = table(*[(0.0, 1, 1)] * 5, adapter=adapters(1, 2, 1, 3, 2))
    costs = FREE | {"lora_load_s": 0.5}
    done = run(requests, "multi_lora", step_s=(1.0, 0.0, 0.0), max_num_seqs=1, max_loras=2, **costs)
    assert done.times("finished_s") == [(1.5,), (3.0,), (4.0,), (5.5,), (7.0,)]
    assert (done.recording.adapter_loads, done.recording.adapter_load_s) == (4, 2.0)


def test_a_step_pays_for_its_adapters_and_for_the_tokens_that_go_through_them():
    # 3 + 2 prompt tokens of a and b and 4 of the model itself: 1 s + 0.25 for any adapters, twice
    # 0.125, and 5 tokens of 0.03125; then each decodes one token, and r0 ends with a third.
    requests = table((0.0, 3, 3), (0.0, 2, 2), (0.0, 4, 2), adapter=adapters(1, 2, 0))
    costs = {
        "lora_load_s": 0.0, "lora_step_s": 0.25, "lora_adapter_s": 0.125, "lora_token_s": 0.03125,
    }  # fmt: skip
    done = run(requests, "multi_lora", step_s=(1.0, 0.0, 0.0), max_loras=2, **costs)
    first_s = 1.0 + 0.25 + 2 * 0.125 + 5 * 0.03125
    second_s = first_s + 1.0 + 0.25 + 2 * 0.125 + 2 * 0.03125
    assert done.times("finished_s")[1:] == [(second_s,), (second_s,)]
    assert done.times("finished_s")[0] == (second_s + 1.0 + 0.25 + 0.125 + 0.03125,)


def test_without_adapters_it_is_chunked_prefill():
    requests = table((0.0, 30, 9), (0.5, 17, 40), (1.0, 3, 20), (1.0, 25, 8))
    plain = run(requests, usable_blocks=20)
    options = run(requests, "multi_lora", max_loras=1, usable_blocks=20, **FREE)
    assert plain.recording.outcome.preemptions.any()
    assert digest(options.recording) == digest(plain.recording)


def test_the_same_text_is_another_prefix_for_each_adapter():
    # All four prompts begin with the same 8 tokens.  Row 3 repeats all of row 2 and its answer,
    # with the same adapter; row 4 does so with another one.
    shared = 7
    segments = np.array(
        [(shared, 8), (shared, 8), (shared, 8), (shared, 8), (own_tag(2), 4), (output_tag(2), 5),
         (shared, 8), (own_tag(2), 4), (output_tag(2), 5)]
    )  # fmt: skip
    content = Content(segments, np.array([0, 1, 2, 3, 6, 9]), "")
    apart = apart_by_adapter(content, adapters(0, 1, 1, 1, 2)).segments
    tags = apart[:, 0].tolist()
    assert tags[1] == tags[2] == tags[3] >= 0
    assert len({tags[0], tags[1], tags[6]}) == 3
    assert tags[4:6] == [own_tag(2), output_tag(2)]
    assert min(tags[7:]) >= 0
    assert len({tags[0], tags[1], *tags[6:]}) == 5
    assert apart[:, 1].tolist() == segments[:, 1].tolist()


def many(*overrides: str) -> Scenario:
    return Scenario.from_mapping(
        {
            "workload": {
                "arrivals": {"process": "poisson", "rate": 12.0},
                "lengths": {"distribution": "fixed", "prompt_tokens": 500, "output_tokens": 100},
                "adapters": {"count": 20, "zipf_exponent": 1.0},
                "shared_prefix_tokens": 256,
                "num_requests": 400,
            },
            "model": "llama-3.1-8b",
            "scheduler": {"lora": {"max_loras": 20}},
            "kv_cache": {"max_model_len": 4096},
        }
    ).with_overrides(overrides)


def test_more_slots_end_the_wait_for_an_adapter_and_take_memory_from_the_cache():
    few, enough = (simulate(many(f"scheduler.lora.max_loras={slots}")) for slots in (2, 20))
    assert few.summary["p99_ttft_ms"] > 10 * enough.summary["p99_ttft_ms"]
    assert few.summary["adapter_loads"] > enough.summary["adapter_loads"]
    assert enough.summary["adapter_loads"] <= 20  # each comes once
    # Rank 16, 32 layers of 81,920 inputs and outputs in bf16: 83,886,080 bytes a slot.
    expected_s = 83_886_080 / 64e9 * enough.summary["adapter_loads"]
    assert enough.summary["adapter_load_s"] == pytest.approx(expected_s)
    blocks = few.resolved.num_gpu_blocks - enough.resolved.num_gpu_blocks
    assert blocks == pytest.approx(18 * 83_886_080 / (16 * 131_072), abs=1)


def test_adapters_make_steps_slower_and_keep_prefixes_apart():
    plain = simulate(many("workload.adapters.share=0.001")).summary
    adapted = simulate(many()).summary
    # 2 ms for 32 layers, and up to 20 adapters of 84 MB to read at 3.35 TB/s.
    assert 2.0 < adapted["median_tpot_ms"] - plain["median_tpot_ms"] < 2.0 + 20 * 0.025 + 1.0
    assert adapted["prefix_hit_rate"] < plain["prefix_hit_rate"]
    # One miss for each adapter and the model itself, of 256 tokens in 500.
    assert adapted["prefix_hit_rate"] == pytest.approx((400 - 20) / 400 * 256 / 500, abs=0.01)


def test_a_router_that_knows_adapters_loads_each_on_one_replica():
    spread, together = (
        simulate(
            many("cluster.replicas=2", "scheduler.lora.max_loras=10", f"cluster.router={router}")
        ).summary
        for router in ("least_outstanding", "adapter_affinity")
    )
    assert together["adapter_loads"] < spread["adapter_loads"]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["scheduler.lora=null"], "asks for LoRA adapters, but the engine serves none"),
        (["scheduler.policy=sglang"], "scheduler.lora is an option of the policy chunked_prefill"),
        (["scheduler.order=priority"], "the order fcfs, and scheduler.order is priority"),
        (["kv_cache.kv_offloading_size=1"], "together with kv_cache.kv_offloading_size"),
        (["scheduler.enable_chunked_prefill=false"], "leave scheduler.enable_chunked_prefill"),
        (["workload.classes=[{name: a, share: 1.0, adapter: x}]"], "remove one of the two"),
    ],
)
def test_adapters_that_are_not_simulated_are_refused(overrides, said):
    with pytest.raises(InputError, match=said):
        many(*overrides)


def test_models_and_releases_without_known_adapters_are_refused():
    with pytest.raises(InputError, match="dense models, and .* has experts"):
        simulate(many("model=gpt-oss-20b"))
    with pytest.raises(InputError, match="engine_version is .*take a newer one"):
        simulate(many("cluster.engine_version='0.11.2'"))


def test_classes_and_traces_name_their_adapters(tmp_path):
    classes = "[{name: a, share: 0.5, adapter: x}, {name: b, share: 0.5}]"
    by_class = simulate(many("workload.adapters=null", f"workload.classes={classes}"))
    requests = by_class.recording.requests
    assert np.array_equal(requests.adapter, 1 - requests.class_id)
    trace = tmp_path / "t.csv"
    trace.write_text(
        "arrival_s,prompt_tokens,output_tokens,adapter\n0,10,3,law\n1,10,3,\n2,10,3,code\n3,9,3,law\n"
    )
    data = {"workload": {"trace": {"path": str(trace)}}, "model": "llama-3.1-8b"}
    with pytest.raises(InputError, match="the trace asks for LoRA adapters"):
        simulate(Scenario.from_mapping(data))
    traced = simulate(Scenario.from_mapping(data | {"scheduler": {"lora": {}}}))
    assert traced.recording.requests.adapter.tolist() == [2, 0, 1, 2]
    assert traced.summary["adapter_loads"] == 3  # with one slot law is loaded twice


def test_adapters_that_nobody_asks_for_take_no_lane():
    # Two of a million adapters are asked for: lanes of the model itself and of these two.
    requests = table(*[(0.0, 1, 1)] * 3, adapter=adapters(1_000_000, 7, 0))
    engine = fleet(requests, "multi_lora", max_loras=2, **FREE).engine
    assert engine.lanes.shape == (1, 3)
    assert engine.requests["lane"].tolist() == [2, 1, 0]
