"""A static batch that waits for nobody is a server in bulk: M/D^[b]/1.

Steps of constant length, so that a batch takes 1 s whatever its size.  The numbers waiting
just after services form a Markov chain, x -> max(x - b, 0) + A with A Poisson(λ) (an empty
queue first waits for an arrival, which is then served alone); its stationary law is computed
numerically.  A cycle from x > 0 lasts 1 s and holds max(x - b, 0) + λ/2 waiting on average;
one from 0 lasts 1/λ + 1 s, of which the second as well with λ/2.
"""

from __future__ import annotations

import numpy as np
import pytest
from queues import assert_mean_is, poisson, requests_of, serve, waits_s
from scipy import stats


def stationary_law(rate, batch_size, states=600):
    """Probabilities of 0 ... states - 1 waiting just after a service of 1 s."""
    arrivals = stats.poisson(rate).pmf(np.arange(states))
    chain = np.zeros((states, states))
    for x in range(states):
        left = max(x - batch_size, 0)
        chain[x, left:] = arrivals[: states - left]
        chain[x, -1] += 1 - chain[x].sum()
    law = np.full(states, 1 / states)
    equations = np.vstack([(chain.T - np.eye(states))[:-1], np.ones(states)])
    law = np.linalg.solve(equations, np.eye(states)[-1])
    assert law[-50:].sum() < 1e-12  # the cut does not matter
    return law


@pytest.mark.parametrize(("batch_size", "load"), [(2, 0.7), (4, 0.5), (4, 0.85), (16, 0.8)])
def test_static_batches(batch_size, load):
    rate = load * batch_size
    law = stationary_law(rate, batch_size)
    left = np.maximum(np.arange(len(law)) - batch_size, 0)
    cycle_s = 1 + law[0] / rate
    waiting = (law @ left + rate / 2) / cycle_s
    n = 24_000

    def measure(rng):
        requests = requests_of(poisson(rng, rate, n), 4, 1)
        recording = serve(
            requests, "static", step_s=(1.0, 0.0, 0.0), batch_size=batch_size, max_num_seqs=16
        )
        return waits_s(recording).mean(), recording.steps.running.mean()

    wait_s, batch = np.transpose([measure(np.random.default_rng([7, k])) for k in range(30)])
    assert_mean_is(waiting / rate, wait_s, within=0.06)  # Little: Wq = Lq / λ
    assert_mean_is(rate * cycle_s, batch, within=0.02)  # who comes in a cycle is served in one
