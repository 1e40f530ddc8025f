"""Length distributions against their definitions, and the built-in tables against traces.

Seeds are fixed; statistical checks are two-sided at the 0.1 % level.
"""

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import pytest
from scipy import stats

from simulator.errors import InputError
from simulator.scenario.lengths import (
    AzureConversationLengths,
    CdfLengths,
    EmpiricalLengths,
    FixedLengths,
    LognormalLengths,
    UniformLengths,
)
from simulator.workload.lengths import draw_lengths
from simulator.workload.quantiles import QuantileTable, main
from simulator.workload.streams import Purpose, Streams, normal_cdf
from simulator.workload.traces import read_trace

LEVEL = 0.001
Z = stats.norm.ppf(1 - LEVEL / 2)
N = 200_000


def luck(n=N, seed=0):
    return [
        Streams(seed).generator(purpose).standard_normal(n)
        for purpose in (Purpose.PROMPT_LENGTHS, Purpose.OUTPUT_LENGTHS)
    ]


def draw(spec, base_dir=None, n=N, seed=0):
    return draw_lengths(spec, *luck(n, seed), base_dir=base_dir)


def test_normal_cdf_against_scipy():
    z = np.linspace(-9, 9, 100_001)
    assert np.abs(normal_cdf(z) - stats.norm.cdf(z)).max() < 2e-7


def test_fixed():
    drawn = draw(FixedLengths(distribution="fixed", prompt_tokens=7, output_tokens=3), n=2)
    assert drawn.prompt_tokens.tolist() == [7, 7]
    assert drawn.output_tokens.tolist() == [3, 3]


def test_uniform_reaches_both_ends_equally_often():
    spec = UniformLengths(
        distribution="uniform",
        min_prompt_tokens=5,
        max_prompt_tokens=14,
        min_output_tokens=1,
        max_output_tokens=4,
    )
    drawn = draw(spec)
    for values, low, high in ((drawn.prompt_tokens, 5, 14), (drawn.output_tokens, 1, 4)):
        counts = np.bincount(values, minlength=high + 1)[low:]
        assert len(counts) == high - low + 1
        assert stats.chisquare(counts).pvalue > LEVEL
    assert abs(np.corrcoef(drawn.prompt_tokens, drawn.output_tokens)[0, 1]) < Z / np.sqrt(N)


def test_lognormal_has_the_given_mean_and_cv():
    spec = LognormalLengths(
        distribution="lognormal",
        mean_prompt_tokens=1000.0,
        prompt_cv=1.5,
        mean_output_tokens=200.0,
        output_cv=0.0,
    )
    drawn = draw(spec)
    assert set(drawn.output_tokens.tolist()) == {200}
    prompt = drawn.prompt_tokens
    assert abs(prompt.mean() / 1000 - 1) < Z * 1.5 / np.sqrt(N)
    # ln(1 + cv^2) is the variance of the logarithm, ln(mean) - half of it its mean.
    variance = np.log(1 + 1.5**2)
    law = stats.norm(np.log(1000) - variance / 2, np.sqrt(variance))
    # Rounding to whole tokens moves the distribution by less than the test can see.
    assert stats.kstest(np.log(prompt), law.cdf).statistic < stats.kstwo.ppf(1 - LEVEL, N) + 1e-3
    assert drawn.notes == ()


def test_lognormal_cuts_are_counted_and_said():
    spec = LognormalLengths(
        distribution="lognormal",
        mean_prompt_tokens=100.0,
        prompt_cv=1.0,
        mean_output_tokens=1.0,
        output_cv=3.0,
        max_prompt_tokens=150,
    )
    drawn = draw(spec, n=1000)
    cut = np.count_nonzero(drawn.prompt_tokens == 150)
    assert drawn.prompt_tokens.max() == 150
    assert drawn.output_tokens.min() == 1
    (note,) = drawn.notes
    assert note.endswith("of 1,000 prompts were longer than 150 and cut to that")
    assert 100 < int(note.split()[1]) <= cut


def test_empirical_draws_whole_rows(tmp_path):
    (tmp_path / "lengths.csv").write_text("prompt_tokens,output_tokens\n10,1\n20,2\n20,4\n40,4\n")
    spec = EmpiricalLengths(distribution="empirical", file="lengths.csv")
    drawn = draw(spec, tmp_path)
    pairs, counts = np.unique(
        np.stack([drawn.prompt_tokens, drawn.output_tokens]), axis=1, return_counts=True
    )
    assert pairs.T.tolist() == [[10, 1], [20, 2], [20, 4], [40, 4]]
    assert stats.chisquare(counts).pvalue > LEVEL


def test_empirical_reads_traces_and_refuses_bad_files(tmp_path):
    spec = EmpiricalLengths(distribution="empirical", file="lengths.csv")
    file = tmp_path / "lengths.csv"
    file.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-12 00:00:00Z,12,3\n")
    assert set(draw(spec, tmp_path, n=5).prompt_tokens.tolist()) == {12}
    file.write_text("prompt_tokens,output_tokens\n10,1\n20,x\n")
    with pytest.raises(InputError, match="line 3: column output_tokens: 'x' is not a number"):
        draw(spec, tmp_path, n=5)
    with pytest.raises(InputError, match="there is no such file"):
        draw(EmpiricalLengths(distribution="empirical", file="none.csv"), tmp_path, n=5)


def test_a_table_gives_back_its_quantiles():
    table = QuantileTable.named("azure_conv_2023")
    p, q = table.prompt_probability, table.output_probability
    prompt, _ = table.sample(p, np.full(len(p), 0.5))
    assert prompt.tolist() == table.prompt_tokens.tolist()
    inner = q[1:-1]  # at 0 and 1 two bands meet
    bands = len(table.output_tokens)
    for band, expected in enumerate(table.output_tokens):
        _, output = table.sample(np.full(len(inner), (band + 0.5) / bands), inner)
        assert np.abs(output - expected[1:-1]).max() <= 1


def test_a_table_is_made_as_it_is_read(tmp_path):
    random = np.random.default_rng(0)
    prompt = random.integers(1, 1000, 5000)
    table = QuantileTable.of("made up", prompt, prompt // 2 + 1)
    stored = json.loads(table.to_json())
    assert stored["about"] == "made up"
    assert stored["prompt_tokens"] == table.prompt_tokens.tolist()
    # Outputs that follow from the prompt still do, within the width of a band.
    drawn_prompt, drawn_output = table.sample(random.random(20_000), random.random(20_000))
    assert np.corrcoef(drawn_prompt, drawn_output)[0, 1] > 0.98


@pytest.mark.parametrize("service", ["conv", "code"])
def test_built_in_tables_are_like_the_traces(shared, service):
    trace = read_trace(shared / "traces/azure2023" / f"AzureLLMInferenceTrace_{service}.csv")
    table = QuantileTable.named(f"azure_{service}_2023")
    random = np.random.default_rng(0)
    prompt, output = table.sample(random.random(1_000_000), random.random(1_000_000))
    for drawn, recorded in ((prompt, trace.prompt_tokens), (output, trace.output_tokens)):
        assert stats.ks_2samp(drawn, recorded).statistic < 0.01
        assert drawn.mean() == pytest.approx(recorded.mean(), rel=0.02)
        assert drawn.std() == pytest.approx(recorded.std(), rel=0.1)
    for measure in (np.corrcoef, lambda a, b: np.full((2, 2), stats.spearmanr(a, b)[0])):
        correlation = measure(prompt, output)[0, 1]
        recorded = measure(trace.prompt_tokens, trace.output_tokens)[0, 1]
        assert correlation == pytest.approx(recorded, abs=0.02)


@pytest.mark.parametrize("service", ["conv", "code"])
def test_built_in_tables_are_what_the_command_makes(shared, service, capsys):
    stored = QuantileTable.named(f"azure_{service}_2023")
    path = shared / "traces/azure2023" / f"AzureLLMInferenceTrace_{service}.csv"
    main([str(path), stored.about])
    folder = resources.files("simulator.workload") / "tables"
    assert capsys.readouterr().out == (folder / f"azure_{service}_2023.json").read_text()


def test_a_named_table_says_what_it_is():
    drawn = draw(AzureConversationLengths(distribution="azure_conv_2023"), n=10)
    assert "Azure LLM inference trace 2023, conversation service" in drawn.notes[0]


@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.8, 1.0])
def test_correlated_lognormal_lengths(correlation):
    spec = LognormalLengths(
        distribution="lognormal", mean_prompt_tokens=8000.0, prompt_cv=0.8, correlation=correlation,
        mean_output_tokens=3000.0, output_cv=1.2,
    )  # fmt: skip
    drawn = draw(spec)
    logs = np.log(drawn.prompt_tokens), np.log(drawn.output_tokens)
    assert np.corrcoef(*logs)[0, 1] == pytest.approx(correlation, abs=0.01)
    # Both keep their own distribution: 5 standard errors of the mean of 200,000.
    assert drawn.output_tokens.mean() == pytest.approx(3000, abs=5 * 3600 / N**0.5)


def cdf(path, output_share=0.25, n=N):
    spec = CdfLengths(distribution="cdf", file=path.name, output_share=output_share)
    return draw(spec, path.parent, n)


@pytest.mark.parametrize("wrap", [lambda points: points, lambda points: {"cdf": points}])
def test_distribution_functions(tmp_path, wrap):
    path = tmp_path / "lengths.json"
    path.write_text(json.dumps(wrap([[100, 0.2], [200, 0.2], [400, 1.0]])))
    drawn = cdf(path)
    total = drawn.prompt_tokens + drawn.output_tokens
    # A fifth up to 100, none from 100 to 200, the rest evenly from 200 to 400.
    for tokens, share in ((100, 0.2), (200, 0.2), (300, 0.6), (400, 1.0)):
        spread = Z * np.sqrt(share * (1 - share) / N) + 1 / 200 * 0.8
        assert np.mean(total <= tokens) == pytest.approx(share, abs=spread)
    assert (np.abs(drawn.output_tokens - total / 4) <= 0.75).all()
    assert drawn.prompt_tokens.min() >= 1


def test_recorded_distribution_functions(shared):
    for name in ("azure_cdf", "agent_heavy_cdf"):
        path = shared / "traces/cdf" / f"{name}.json"
        stored = json.loads(path.read_text())
        points = stored["cdf"] if isinstance(stored, dict) else stored
        drawn = cdf(path)
        total = drawn.prompt_tokens + drawn.output_tokens
        below = [np.mean(total <= tokens) for tokens, _ in points]
        assert below == pytest.approx([share for _, share in points], abs=0.006)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[[5, 0.5], [4, 1]]", r"point 2: \[4, 1\] does not follow \[5, 0.5\]"),
        ("[[5, 0.5], [9, 0.4]]", "shares from 0 to 1"),
        ("[[5, 0.5]]", "ends at a share of 0.5; it must reach 1"),
        ("[[5, NaN], [6, 1]]", "point 1"),
        ("[1, 2]", "is not a list of pairs"),
        ("{}", "no distribution function can be read"),
        ("[[0, 1]]", "tokens go up from 1"),
    ],
)
def test_bad_distribution_functions(tmp_path, written, said):
    path = tmp_path / "lengths.json"
    path.write_text(written)
    with pytest.raises(InputError, match=said):
        cdf(path)


def texts(path, tokens_per_word=1.5):
    spec = EmpiricalLengths(
        distribution="empirical", file=path.name, tokens_per_word=tokens_per_word
    )
    return draw(spec, path.parent, 200)


def test_lengths_of_texts(tmp_path):
    path = tmp_path / "texts.json"
    shared_gpt = [
        {"id": "a", "conversations": [{"from": "human", "value": "one two  three four"},
                                      {"from": "gpt", "value": "yes no"}, {"from": "human"}]},
        {"id": "b", "conversations": [{"from": "human", "value": "alone"}]},
    ]  # fmt: skip
    path.write_text(json.dumps(shared_gpt))
    drawn = texts(path)
    assert set(drawn.prompt_tokens) == {6}
    assert set(drawn.output_tokens) == {3}
    assert drawn.notes == (
        "lengths: texts.json, 1 texts at 1.5 tokens a word; 1 conversations without an answer are "
        "left out",
    )
    path.write_text('{"prompt": "a b", "output_tokens": 9}\n')
    drawn = texts(path)
    assert (set(drawn.prompt_tokens), set(drawn.output_tokens)) == ({3}, {9})
    with pytest.raises(InputError, match="holds texts, whose tokens depend on a tokenizer"):
        texts(path, None)
    with pytest.raises(InputError, match="holds texts and no times; give workload.arrivals"):
        read_trace(path)
    path.write_text('{"prompt": "a b"}\n')
    with pytest.raises(InputError, match="line 1: output_tokens None is not a whole number"):
        texts(path)
    path.write_text('{"prompt": 5, "output_tokens": 9}\n')
    with pytest.raises(InputError, match="line 1: prompt holds no text"):
        texts(path)
    path.write_text('{"prompt_tokens": 5, "output_tokens": 9}\n')
    with pytest.raises(InputError, match="tells lengths in tokens; remove lengths.tokens_per_word"):
        texts(path)
