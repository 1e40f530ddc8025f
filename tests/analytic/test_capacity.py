"""Capacity of queues for which theory gives it."""

from __future__ import annotations

import pytest

from simulator.errors import InputError
from simulator.planning.capacity import find_capacity
from simulator.planning.capacity.search import parse_axes, search
from simulator.planning.capacity.what_if import parse_what_if
from simulator.scenario import Scenario

SERVICE_S = 0.05


def single_server(**more):
    """M/D/1: one seat, one step of 50 ms per request."""
    return Scenario.from_mapping(
        {
            "workload": {
                "arrivals": {"process": "poisson", "rate": 10.0},
                "lengths": {"distribution": "fixed", "prompt_tokens": 10, "output_tokens": 1},
                "num_requests": 8000,
            },
            "model": "llama-3.1-8b",
            "scheduler": {"max_num_seqs": 1, "async_scheduling": False},
            "kv_cache": {"num_gpu_blocks": 100, "max_model_len": 64},
            "cost_model": {"kind": "linear", "t_mem_s": SERVICE_S, "t_flop_s_per_token": 0.0},
            "slo": {"mean_queue_ms": 50},
        }
        | more
    )


def load_of_theory(wait_s, service_s=SERVICE_S):
    """Rate at which the mean wait of M/D/1 is `wait_s`: W = rho * s / (2 * (1 - rho))."""
    return 2 * wait_s / (service_s * (service_s + 2 * wait_s))


@pytest.fixture(scope="module")
def answer():
    return find_capacity(
        single_server(), model_error=0.1, try_changes=False, what_if=["traffic", "n-1"]
    )


def test_greatest_rate_of_a_single_server(answer):
    # 2 * 0.05 / (0.05 * 0.15) = 13.33 requests/s.
    truth = load_of_theory(0.05)
    assert answer.per_replica.estimate == pytest.approx(truth, rel=0.03)
    assert answer.per_replica.low <= truth <= answer.per_replica.high
    assert answer.per_replica.relative_half_width <= 0.03
    assert answer.headroom == pytest.approx(answer.per_replica.estimate / 10 - 1)
    assert answer.met
    assert answer.summary["state"] == "STABLE"
    assert answer.binding.objective == "mean_queue_ms"


def test_band_of_a_single_server(answer):
    # With steps 10 % longer and shorter.
    band = answer.model_band
    assert band.low == pytest.approx(load_of_theory(0.05, 1.1 * SERVICE_S), rel=0.03)
    assert band.high == pytest.approx(load_of_theory(0.05, SERVICE_S / 1.1), rel=0.03)


def test_questions_about_it(answer):
    traffic, less = answer.what_if
    assert traffic["met"]  # 12 of 13.3
    assert less["verdict"] == "there is only one"


def test_replicas_for_a_rate():
    # Round robin over two servers makes the gaps of each Erlang: they wait less than in M/D/1,
    # so that 2 * 13.33 = 26.7 is a bound from below of what two carry, 2 / 0.05 = 40 one from
    # above.
    found = find_capacity(single_server(), rate=26.0, model_error=0.0, try_changes=False)
    assert (found.replicas.estimate, found.replicas.high) == (2, 2)
    assert 26.0 < found.whole < 40.0
    assert found.gpus == 2
    assert found.dollars_per_hour == pytest.approx(2 * 2.99)


def test_a_limit_that_no_load_meets():
    scenario = single_server(slo={"p99_ttft_ms": 49})
    found = find_capacity(scenario, try_changes=False)
    assert found.per_replica.estimate == 0
    assert found.to_mapping()["cost_per_million_output_tokens"] is None
    assert not found.met
    assert found.binding.value_ms == pytest.approx(50.0)
    with pytest.raises(InputError, match=r"no number of replicas meets p99_ttft_ms <= 49"):
        find_capacity(scenario, rate=1.0)


def test_an_overloaded_system_is_not_a_slow_one():
    # A limit far beyond what a run of this length can reach: capacity is where it overflows.
    scenario = single_server(slo={"p99_e2el_ms": 1e7})
    found = find_capacity(scenario, try_changes=False)
    assert found.per_replica.estimate == pytest.approx(1 / SERVICE_S, rel=0.05)


def test_search_finds_the_cheapest():
    # Steps do not depend on the GPUs here, so two per replica cost twice as much.
    axes = parse_axes(["cluster.tensor_parallel=2,1", "slo.mean_queue_ms=50, 1e-9"])
    found = search(single_server(), axes, rate=26.0)
    assert [option.why_not == "" for option in found] == [True, True, False, False]
    best, second = found[:2]
    assert best.settings == ("cluster.tensor_parallel=1", "slo.mean_queue_ms=50")
    assert (best.replicas, best.gpus) == (2, 2)
    assert second.dollars_per_hour == 2 * best.dollars_per_hour
    assert "even at" in found[2].why_not


def test_search_drops_what_is_over_the_budget():
    found = search(single_server(), parse_axes(["cluster.tensor_parallel=1,4"]), budget=10.0)
    assert (found[0].replicas, found[0].gpus) == (3, 3)
    assert found[1].why_not == "one replica costs $11.96/h"
    with pytest.raises(InputError, match="no combination is left"):
        search(single_server(), parse_axes(["cluster.tensor_parallel=4"]), budget=10.0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("scheduler.max_num_seqs", "is not of the form"),
        ("cluster.replicas=1,2", "is what capacity looks for"),
    ],
)
def test_axes_that_are_none(text, sentence):
    with pytest.raises(InputError, match=sentence):
        parse_axes([text])


def test_what_ifs_are_known_or_refused():
    assert parse_what_if(["traffic,n-1", "x: seed=1"]) == ["traffic", "n-1", "x: seed=1"]
    assert "bursts" in parse_what_if(["all"])
    with pytest.raises(InputError, match="--what-if luck: not known"):
        parse_what_if(["luck"])


def test_a_limit_that_is_met_exactly_is_met():
    # A step of 100 ms has eight seats: 16 clients without think time get an answer every second
    # step, 200 ms after they asked, and 17 do not.
    scenario = single_server(
        workload={
            "arrivals": {"process": "closed_loop", "concurrency": 12},
            "lengths": {"distribution": "fixed", "prompt_tokens": 10, "output_tokens": 1},
            "num_requests": 1000,
        },
        scheduler={"max_num_seqs": 8, "async_scheduling": False},
        cost_model={"kind": "linear", "t_mem_s": 0.1, "t_flop_s_per_token": 0.0},
        slo={"p99_e2el_ms": 200},
    )
    assert find_capacity(scenario, try_changes=False).whole == 16


def test_few_requests_and_a_far_rate_do_not_mislead():
    # Three requests would meet any limit by chance; a rate 100,000 times too low is no answer.
    workload = single_server().to_mapping()["workload"] | {"num_requests": 3}
    workload["arrivals"] = {"process": "poisson", "rate": 1e-4}
    found = find_capacity(single_server(workload=workload), try_changes=False)
    assert found.per_replica.estimate == pytest.approx(load_of_theory(0.05), rel=0.06)
    assert found.summary["num_prompts"] >= 1000
