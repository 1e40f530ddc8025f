"""The catalogue's facts beside the config.json that each model was published with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cost_models import catalog

PUBLISHED = {
    "qwen3-0.6b": "Qwen--Qwen3-0.6B",
    "qwen3-1.7b": "Qwen--Qwen3-1.7B",
    "qwen3-8b": "Qwen--Qwen3-8B",
    "qwen3-32b": "Qwen--Qwen3-32B",
    "qwen3-30b-a3b": "Qwen--Qwen3-30B-A3B",
    "qwen3-235b-a22b": "Qwen--Qwen3-235B-A22B",
    "qwen3-coder-480b-a35b": "Qwen--Qwen3-Coder-480B-A35B-Instruct",
    "llama-3.1-8b": "meta-llama--Meta-Llama-3.1-8B",
    "llama-3.1-70b": "meta-llama--Meta-Llama-3.1-70B",
    "llama-3.1-405b": "meta-llama--Meta-Llama-3.1-405B",
    "mixtral-8x7b": "mistralai--Mixtral-8x7B-v0.1",
    "deepseek-v3": "deepseek-ai--DeepSeek-V3",
    "kimi-k2": "moonshotai--Kimi-K2-Instruct",
    "gpt-oss-20b": "openai--gpt-oss-20b",
    "gpt-oss-120b": "openai--gpt-oss-120b",
}
# Rounded as their publishers have them, in 1e9: all parameters, and those that work on a token.
PARAMETERS = {
    "llama-3.1-8b": (8.03, 8.03),
    "llama-3.1-70b": (70.6, 70.6),
    "qwen3-30b-a3b": (30.5, 3.3),
    "qwen3-235b-a22b": (235, 22),
    "mixtral-8x7b": (46.7, 12.9),
    "deepseek-v3": (671, 37),
    "kimi-k2": (1000, 32),
    "gpt-oss-20b": (20.9, 3.6),
    "gpt-oss-120b": (116.8, 5.1),
}


@pytest.mark.parametrize(("name", "published"), PUBLISHED.items())
def test_a_model_of_the_catalogue_is_its_public_configuration(name: str, published: str) -> None:
    package = pytest.importorskip("aiconfigurator_core")
    file = Path(package.__file__).parent / "model_configs" / f"{published}_config.json"
    if not file.is_file():
        pytest.skip(f"this release of aiconfigurator-core has no {file.name}")
    ours, theirs = catalog.model(name), catalog.model(str(file))
    same = {"name": ours.name, "source": ours.source, "notes": ours.notes}
    longest = ours.max_position_embeddings  # some serve less than the position embeddings allow
    assert longest <= theirs.max_position_embeddings
    assert replace(theirs, **same, max_position_embeddings=longest) == ours
    assert theirs.kv_bytes_per_token() == ours.kv_bytes_per_token()


@pytest.mark.parametrize(("name", "billions"), PARAMETERS.items())
def test_parameters_are_as_many_as_published(name: str, billions: tuple[float, float]) -> None:
    model = catalog.model(name)
    assert model.params_total / 1e9 == pytest.approx(billions[0], rel=0.03)
    # Publishers count the embedding among those that work on a token, or do not.
    embedding = model.vocab_size * model.hidden_size
    active = model.params_active
    assert (active - embedding) / 1e9 * 0.97 < billions[1] < active / 1e9 * 1.03
