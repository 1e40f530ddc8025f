"""Stages of pipeline parallelism: which layers each has, and what that leaves of a model."""

from __future__ import annotations

from dataclasses import replace

from cost_models.catalog import Model


def stage_layers(num_layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage.

    What is over goes to the stages before the last, from the end on, one each; the last has
    lm_head beside its layers (vllm/distributed/utils.py, get_pp_indices).
    """
    layers = [num_layers // stages] * stages
    for place in range(num_layers % stages):
        layers[stages - 2 - place] += 1
    return tuple(layers)


def stage_shares(model: Model, stages: int) -> tuple[float, ...]:
    """Share of the layers of each of several stages; none for one stage."""
    if stages == 1:
        return ()
    return tuple(layers / model.num_layers for layers in stage_layers(model.num_layers, stages))


def stage_models(model: Model, stages: int) -> tuple[Model, ...]:
    """The part of the model on each stage, as a model of fewer layers.

    The first stage has the embedding and the last has lm_head, both of them where they are
    one matrix; stages between have neither.  Layers with a window, and those without experts,
    are spread evenly but for the leading dense layers of mixtures, which are the first
    stage's.
    """
    if stages == 1:
        return (model,)
    counts = stage_layers(model.num_layers, stages)
    dense = model.num_layers - model.experts.layers if model.experts else 0
    found, before = [], 0
    for place, layers in enumerate(counts):
        through = before + layers
        ends = place in (0, stages - 1)
        experts = None
        if model.experts is not None:
            experts = replace(model.experts, layers=layers - max(0, min(dense, through) - before))
        found.append(
            replace(
                model,
                num_layers=layers,
                experts=experts,
                windowed_layers=_share(model.windowed_layers, before, through, model.num_layers),
                vocab_size=model.vocab_size if ends else 0,
                tie_word_embeddings=True,
            )
        )
        before = through
    return tuple(found)


def _share(count: int, before: int, through: int, of: int) -> int:
    """How many of `count` among `of` fall between two places when they are spread evenly."""
    return count * through // of - count * before // of
