"""One seat makes a replica a single server, first come first served: M/D/1, M/M/1, M/G/1.

Independent replications with fixed seeds; expected values from Pollaczek and Khinchine:
Wq = λ E[S²] / (2 (1 - ρ)).
"""

from __future__ import annotations

import numpy as np
import pytest
from queues import assert_mean_is, poisson, requests_of, serve, waits_s

REPLICATIONS = 30
POLICIES = ("continuous", "orca", "chunked_prefill")


def pollaczek_khinchine(rate, mean_s, mean_square_s2):
    return rate * mean_square_s2 / (2 * (1 - rate * mean_s))


def replications(make, n=REPLICATIONS):
    return [make(np.random.default_rng([2024, k])) for k in range(n)]


@pytest.mark.parametrize("policy", [*POLICIES, "static"])
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_m_d_1(policy, load):
    # Prompt 8, one output token: one step of 0.2 + 8·0.1 = 1 s.
    static = {"batch_size": 1} if policy == "static" else {}

    def mean_wait(rng):
        requests = requests_of(poisson(rng, load, 12_000), 8, 1)
        return waits_s(serve(requests, policy, step_s=(0.2, 0.1, 0.0), **static)).mean()

    # Wq = ρ S / (2 (1 - ρ))
    assert_mean_is(load / (2 * (1 - load)), replications(mean_wait), within=0.06)


@pytest.mark.parametrize("policy", POLICIES)
def test_m_m_1(policy):
    # One step a request, 1 µs a token, prompts of exponential length with a mean of 10^6
    # tokens: an exponential service time of mean 1 s, to a microsecond.
    load = 0.7

    def measure(rng):
        n = 12_000
        prompts = np.ceil(rng.exponential(1e6, n))
        recording = serve(requests_of(poisson(rng, load, n), prompts, 1), policy,
                          step_s=(0.0, 1e-6, 0.0))  # fmt: skip
        waits = waits_s(recording)
        sojourns = waits + prompts[n // 10 :] * 1e-6
        return waits.mean(), (waits > 0).mean(), (waits > 3.0).mean(), (sojourns > 3.0).mean()

    wait, waits_at_all, long_wait, long_sojourn = np.transpose(replications(measure))
    # Wq = ρ / (μ - λ); P(W > 0) = ρ, as arrivals see time averages;
    # P(W > t) = ρ exp(-(μ - λ) t); P(T > t) = exp(-(μ - λ) t)
    assert_mean_is(load / (1 - load), wait, within=0.06)
    assert_mean_is(load, waits_at_all, within=0.01)
    assert_mean_is(load * np.exp(-(1 - load) * 3), long_wait, within=0.05)
    assert_mean_is(np.exp(-(1 - load) * 3), long_sojourn, within=0.05)


@pytest.mark.parametrize("policy", POLICIES)
def test_m_g_1_with_geometric_outputs(policy):
    # A prompt of one token, then one step of 0.05 s for each output token: N·0.05 s with N
    # geometric, E N = 1/q, E N² = (2 - q)/q².
    q, step_s, load = 0.05, 0.05, 0.75
    mean_s, mean_square_s2 = step_s / q, step_s**2 * (2 - q) / q**2

    def mean_wait(rng):
        arrival_s = poisson(rng, load / mean_s, 12_000)
        requests = requests_of(arrival_s, 1, rng.geometric(q, 12_000))
        return waits_s(serve(requests, policy, step_s=(step_s, 0.0, 0.0))).mean()

    expected = pollaczek_khinchine(load / mean_s, mean_s, mean_square_s2)
    assert_mean_is(expected, replications(mean_wait), within=0.06)


def test_m_g_1_with_chunked_prompts_and_outputs():
    # Prompts of 10, 40 or 70 tokens in chunks of 20, then 1 or 25 output tokens.  Steps last
    # 0.02 s + 1 ms a token: ceil(P / 20) + O - 1 steps for P + O - 1 tokens.
    prompts, outputs = np.array([10, 40, 70]), np.array([1, 25])
    chunks = -(-prompts // 20)
    service_s = 0.02 * (chunks[:, None] + outputs - 1) + 1e-3 * (prompts[:, None] + outputs - 1)
    load = 0.7
    rate = load / service_s.mean()

    def mean_wait(rng):
        n = 12_000
        requests = requests_of(
            poisson(rng, rate, n), rng.choice(prompts, n), rng.choice(outputs, n)
        )
        return waits_s(
            serve(requests, step_s=(0.02, 1e-3, 0.0), max_num_batched_tokens=20)
        ).mean()  # fmt: skip

    expected = pollaczek_khinchine(rate, service_s.mean(), (service_s**2).mean())
    assert_mean_is(expected, replications(mean_wait), within=0.06)


def test_shortest_job_first_in_a_single_server():
    # Non-preemptive priority of the shorter of two classes (Cobham): with R = λ E[S²]/2,
    # W1 = R / (1 - ρ1), W2 = R / ((1 - ρ1)(1 - ρ)).
    load, short_s, long_s = 0.8, 0.5, 4.0
    rate = load / ((short_s + long_s) / 2)
    load_short = rate / 2 * short_s
    residual_s = rate * (short_s**2 + long_s**2) / 4

    def mean_waits(rng):
        n = 12_000
        outputs = rng.choice([1, 8], n)
        requests = requests_of(poisson(rng, rate, n), 1, outputs)
        recording = serve(requests, step_s=(0.5, 0.0, 0.0), order="sjf")
        waits, is_short = waits_s(recording), outputs[n // 10 :] == 1
        return waits[is_short].mean(), waits[~is_short].mean()

    short, long = np.transpose(replications(mean_waits))
    assert_mean_is(residual_s / (1 - load_short), short, within=0.06)
    assert_mean_is(residual_s / ((1 - load_short) * (1 - load)), long, within=0.08)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_utilisation_is_the_load(load):
    def busy_share(rng):
        recording = serve(requests_of(poisson(rng, load, 12_000), 8, 1), step_s=(0.2, 0.1, 0.0))
        steps = recording.steps
        return (steps.end_s - steps.start_s).sum() / recording.end_s

    assert_mean_is(load, replications(busy_share), within=0.01)
