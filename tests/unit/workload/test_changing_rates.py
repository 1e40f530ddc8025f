"""Arrivals whose rate changes, and Weibull gaps, against theory.

Seeds are fixed; each statistical check is at the 0.1 % level.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats

from simulator.errors import InputError
from simulator.scenario import WorkloadSpec
from simulator.scenario.arrivals import DiurnalArrivals, MmppArrivals, ProfileArrivals
from simulator.workload import build_requests
from simulator.workload.rates import steps, through

LEVEL = 0.001
FIXED = {"distribution": "fixed", "prompt_tokens": 10, "output_tokens": 1}


def times(arrivals, *, seed=0, base_dir=Path(), **workload):
    spec = WorkloadSpec.model_validate({"arrivals": arrivals, "lengths": FIXED, **workload})
    return build_requests(spec, base_dir=base_dir, max_model_len=4096, seed=seed).arrival_s


@pytest.mark.parametrize("cv", [0.3, 1.0, 2.5, 6.0])
def test_weibull_gaps(cv):
    gaps = np.diff(times({"process": "weibull", "rate": 4.0, "cv": cv}, num_requests=100_000))
    # The shape whose coefficient of variation is cv, found by SciPy's distribution.
    shapes = np.geomspace(0.2, 20, 200_001)
    found = np.sqrt(stats.weibull_min.var(shapes)) / stats.weibull_min.mean(shapes)
    shape = shapes[np.abs(found - cv).argmin()]
    law = stats.weibull_min(shape, scale=0.25 / stats.weibull_min.mean(shape))
    assert stats.kstest(gaps, law.cdf).pvalue > LEVEL


def test_weibull_with_cv_1_is_poisson_and_a_cv_out_of_reach_is_refused():
    weibull = {"process": "weibull", "rate": 4.0, "cv": 1.0}
    gaps = np.diff(times(weibull, num_requests=50_000))
    assert stats.kstest(gaps, stats.expon(scale=0.25).cdf).pvalue > LEVEL
    with pytest.raises(InputError, match=r"cv is 1000; allowed for weibull: 0\.01 to 100"):
        times({**weibull, "cv": 1000.0}, num_requests=5)


CURVES = {
    "steps": steps(np.array([3.0, 0.0, 5.0]), 10.0, repeats=True),
    "ramp": through([(0.0, 1.0), (10.0, 5.0), (10.0, 2.0), (30.0, 0.0), (40.0, 3.0)]),
    "late": through([(5.0, 2.0), (6.0, 4.0)]),
    "flat": through([(0.0, 2.0)]),
}


@pytest.mark.parametrize("name", CURVES)
def test_the_time_change_is_the_inverse_of_the_integral(name):
    curve = CURVES[name]

    def rate(t):
        end = curve.edge_s[-1]
        t = t % end if curve.repeats else t
        if t >= end:
            return curve.last[-1]
        piece = np.searchsorted(curve.edge_s, t, "right") - 1
        left, right = curve.edge_s[piece : piece + 2]
        return np.interp(t, [left, right], [curve.first[piece], curve.last[piece]])

    moments = np.array([0.7, 4.3, 9.9, 12.0, 22.0, 31.0, 44.5, 63.0])
    breaks = np.concatenate([curve.edge_s + k * curve.edge_s[-1] for k in range(8)])
    for t in moments:
        inside = sorted({*breaks[breaks < t].tolist(), 0.0, t})
        area = sum(
            integrate.quad(rate, a, b)[0] for a, b in pairwise(inside)
        )  # fmt: skip
        assert curve.expected(t) == pytest.approx(area, rel=1e-9)
    moving = np.array([t for t in moments if rate(t) > 0])
    expected = np.array([curve.expected(t) for t in moving])
    assert curve.times(expected) == pytest.approx(moving, rel=1e-9)


def test_diurnal_counts_follow_the_curve():
    curve = [1, 2, 6, 3]
    spec = {"process": "diurnal", "rate": 5.0, "curve": curve, "period_s": 400.0}
    arrivals = times(spec, duration_s=4000.0)
    counts = np.bincount((arrivals % 400 // 100).astype(int), minlength=4)
    expected = 5.0 * 4000 * np.array(curve) / sum(curve)
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > LEVEL
    z = (counts.sum() - 20_000) / np.sqrt(20_000)
    assert abs(z) < stats.norm.ppf(1 - LEVEL / 2)
    # Without a rate, the curve's own values.
    own = times({"process": "diurnal", "curve": curve, "period_s": 400.0}, duration_s=4000.0)
    assert abs(len(own) - 12_000) < 4 * np.sqrt(12_000)


def test_a_recorded_curve(tmp_path):
    (tmp_path / "r.csv").write_text(
        "model,t_s,rate_rps\na,0,1\na,10,4\nb,0,100\nb,10,100\na,20,1\n"
    )
    spec = {"process": "diurnal", "file": "r.csv", "series": "a"}
    arrivals = times(spec, base_dir=tmp_path, duration_s=30_000.0)
    counts = np.bincount((arrivals % 30 // 10).astype(int))
    assert stats.chisquare(counts, counts.sum() * np.array([1, 4, 1]) / 6).pvalue > LEVEL
    with pytest.raises(InputError, match="several models; say which as .*: a, b"):
        times({"process": "diurnal", "file": "r.csv"}, base_dir=tmp_path, num_requests=5)
    with pytest.raises(InputError, match="has no model 'c'"):
        times({**spec, "series": "c"}, base_dir=tmp_path, num_requests=5)
    (tmp_path / "bad.csv").write_text("t_s,rate_rps\n0,1\n10,x\n")
    with pytest.raises(InputError, match="line 3: column rate_rps: 'x' is not a number"):
        times({"process": "diurnal", "file": "bad.csv"}, base_dir=tmp_path, num_requests=5)
    with pytest.raises(InputError, match="no rate curve can be read"):
        times({"process": "diurnal", "file": "none.csv"}, base_dir=tmp_path, num_requests=5)


def test_servegen_rate_curves(shared):
    file = str(shared / "traces/servegen/servegen_rate_10min.csv")
    spec = {"process": "diurnal", "file": file, "series": "reason/deepseek-r1"}
    rows = [line.split(",") for line in Path(file).read_text().splitlines()[1:]]
    rates = np.array([float(row[2]) for row in rows if row[0] == "reason/deepseek-r1"])
    arrivals = times(spec, duration_s=600.0 * len(rates))
    counts = np.bincount((arrivals // 600).astype(int), minlength=len(rates))
    expected = 600 * rates
    assert (((counts - expected) ** 2) / expected).sum() < stats.chi2(len(rates)).ppf(1 - LEVEL)


def test_a_profile_ramps_and_spikes():
    points = [[0, 0], [100, 20], [100, 100], [110, 100], [110, 5]]
    arrivals = times({"process": "profile", "points": points}, duration_s=210.0)
    ramp, spike, rest = (
        arrivals[(arrivals >= a) & (arrivals < b)] for a, b in ((0, 100), (100, 110), (110, 210))
    )
    for sample, mean in ((ramp, 1000), (spike, 1000), (rest, 500)):
        assert abs(len(sample) - mean) < stats.norm.ppf(1 - LEVEL / 2) * np.sqrt(mean)
    # On a ramp from 0 arrivals are distributed as t^2.
    assert stats.kstest(ramp / 100, lambda x: x * x).pvalue > LEVEL
    assert stats.kstest((spike - 100) / 10, "uniform").pvalue > LEVEL


def test_mmpp_has_its_rate_and_its_burstiness():
    spec = {
        "process": "mmpp", "rate": 10.0, "burst_factor": 4.0, "burst_share": 0.1, "burst_s": 5.0
    }  # fmt: skip
    duration_s, width_s = 200_000.0, 500.0
    arrivals = times(spec, duration_s=duration_s)
    # Index of dispersion of a two-state MMPP for long windows (Fischer and Meier-Hellstern,
    # 1993): 1 + 2 p q (r1 - r2)^2 / (rate (a + b)), with a and b the rates of the switching.
    calm, burst, calm_s = MmppArrivals.model_validate(spec).states()
    p, a, b = 0.1, 1 / 5.0, 1 / calm_s
    long = 1 + 2 * p * (1 - p) * (burst - calm) ** 2 / (10.0 * (a + b))
    x = (a + b) * width_s
    dispersion = 1 + (long - 1) * (1 - (1 - np.exp(-x)) / x)
    counts = np.bincount((arrivals / width_s).astype(int), minlength=int(duration_s / width_s))
    windows = len(counts)
    z = stats.norm.ppf(1 - LEVEL / 2)
    assert abs(counts.mean() / width_s - 10.0) < z * np.sqrt(10.0 * dispersion / duration_s)
    low, high = stats.chi2(windows - 1).ppf([LEVEL / 2, 1 - LEVEL / 2]) / (windows - 1)
    # The counts of a window are not quite normal: half as much again on either side.
    assert low / 1.5 < counts.var() / counts.mean() / dispersion < high * 1.5
    assert dispersion > 20


def test_variants_share_their_luck():
    mmpp = {
        "process": "mmpp",
        "rate": 10.0,
        "burst_factor": 4.0,
        "burst_share": 0.1,
        "burst_s": 5.0,
    }
    few, many = (times(mmpp, num_requests=n) for n in (1000, 5000))
    assert np.array_equal(few, many[:1000])
    in_time = times(mmpp, duration_s=float(few[-1]) + 1e-9)
    assert np.allclose(in_time[:1000], few)
    profile = {"process": "profile", "points": [[0, 2.0]]}
    poisson = {"process": "poisson", "rate": 2.0}
    assert times(profile, num_requests=500) == pytest.approx(times(poisson, num_requests=500))


def test_classes_have_their_own_bursts():
    mmpp = {
        "process": "mmpp",
        "rate": 10.0,
        "burst_factor": 4.0,
        "burst_share": 0.1,
        "burst_s": 5.0,
    }
    classes = [{"name": name, "arrivals": mmpp} for name in "ab"]
    spec = WorkloadSpec.model_validate({"lengths": FIXED, "classes": classes, "num_requests": 4000})
    requests = build_requests(spec, base_dir=".", max_model_len=4096, seed=0)
    a, b = (requests.arrival_s[requests.class_id == k] for k in (0, 1))
    counts = [np.bincount((x / 5).astype(int), minlength=60)[:30] for x in (a, b)]
    assert abs(np.corrcoef(counts[0], counts[1])[0, 1]) < 0.6


def test_specifications_say_what_is_wrong():
    for bad in (
        {"process": "diurnal", "curve": [1.0, 2.0], "file": "x"},
        {"process": "profile", "points": []},
    ):
        kind = DiurnalArrivals if bad["process"] == "diurnal" else ProfileArrivals
        with pytest.raises(ValueError, match="diurnal needs|at least 1"):
            kind.model_validate(bad)
