"""The scheduler of an engine release: its rules, and options that it does not have yet."""

from __future__ import annotations

from cost_models.catalog import EngineDefaults
from simulator.errors import InputError
from simulator.scenario.scenario import Scenario
from simulator.schedulers.releases import NEWEST, RULES


def check_release(scenario: Scenario, defaults: EngineDefaults, notes: list[str]) -> None:
    """Say whose rules hold; only chunked_prefill is the scheduler of a release.

    Raises
    ------
    InputError
        An option that came with a later release.
    """
    scheduler = scenario.scheduler
    if scheduler.policy != "chunked_prefill":
        return
    read = defaults.scheduler_rules
    rules = RULES[read]
    options = {
        "watermark": rules.has_watermark,
        "scheduler_reserve_full_isl": rules.has_full_isl_check,
    }
    for key, known in options.items():
        value = getattr(scheduler, key)
        if value and not known:
            given = "true" if value is True else value
            version = scenario.cluster.engine_version or defaults.version
            raise InputError(
                f"scheduler.{key} is {given}, but {defaults.engine} {version} has no such "
                "option; remove it, or take a later cluster.engine_version"
            )
    if scenario.cluster.engine_version is not None and read != NEWEST:
        notes.append(
            f"scheduler rules: those of {defaults.engine} {read}, the nearest release whose "
            f"scheduler was read and run; {', '.join(RULES)} are told apart"
        )
