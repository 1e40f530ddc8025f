"""One summary of several: means, the worst state, objectives that hold in all runs."""

from __future__ import annotations

from simulator.planning.replicated import averaged


def run(ttft, state, met, share, prompts=10):
    verdict = {"class_name": None, "metric": "p99_ttft_ms", "limit_ms": 5.0}
    return {
        "name": "x", "num_prompts": prompts, "p99_ttft_ms": ttft, "request_goodput": None,
        "state": state, "latency_depends_on_run_length": state == "OVERLOADED",
        "limits": [{"resource": "host", "share": share}, {"resource": "kv", "share": 1 - share}],
        "slo": [verdict | {"value_ms": ttft, "met": met}],
        "classes": {"a": {"completed": prompts, "slo": []}},
        "causes": {"slo": "p99_ttft_ms", "shares": [share, 1 - share]},
    }  # fmt: skip


def test_one_run_is_itself():
    one = run(1.0, "STABLE", True, 0.5)
    assert averaged([one]) is one


def test_means_and_the_worst():
    found = averaged([run(1.0, "STABLE", True, 0.9), run(4.0, "OVERLOADED", False, 0.0, 20)])
    assert found["p99_ttft_ms"] == 2.5
    assert found["num_prompts"] == 15.0
    assert found["state"] == "OVERLOADED"
    assert found["latency_depends_on_run_length"] is True
    assert found["request_goodput"] is None
    # host: (0.9 + 0) / 2, kv: (0.1 + 1) / 2
    assert [limit["resource"] for limit in found["limits"]] == ["kv", "host"]
    assert [round(limit["share"], 12) for limit in found["limits"]] == [0.55, 0.45]
    assert found["slo"][0]["met"] is False
    assert found["slo"][0]["value_ms"] == 2.5
    assert found["classes"]["a"]["completed"] == 15.0
    assert found["causes"]["slo"] == "p99_ttft_ms"
    assert [round(share, 12) for share in found["causes"]["shares"]] == [0.45, 0.55]


def test_what_never_differs_keeps_its_type():
    found = averaged([run(1.0, "STABLE", True, 0.5), run(1.0, "STABLE", True, 0.5)])
    assert found["num_prompts"] == 10
    assert isinstance(found["num_prompts"], int)
