"""The cheapest of many configurations that carries a load within the limits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator.errors import InputError
from simulator.planning.capacity.fleet import replicas_for
from simulator.planning.capacity.solve import greatest_load
from simulator.planning.capacity.system import System
from simulator.planning.variants import split_outside
from simulator.scenario.overrides import parse_override
from simulator.words import counted

if TYPE_CHECKING:
    from simulator.scenario import Scenario

RUNNERS_UP = 4
SEARCH = "--search"
LIGHT = 0.05  # of the load to start from: a system that misses its limits there is hopeless


@dataclass(frozen=True, kw_only=True)
class Option:
    """A configuration, what it carries and what that costs.

    Attributes
    ----------
    settings : keys and values, as given.
    load : greatest load of one replica, in replicate 0; NaN where it was not looked for.
    replicas : for the load asked for, or as many as the budget pays for.
    gpus, dollars_per_hour : of all of them.
    dollars_per_load : per hour and unit of the load that they carry.
    why_not : why it is out, where it is.
    """

    settings: tuple[str, ...]
    load: float = math.nan
    replicas: int = 0
    gpus: int = 0
    dollars_per_hour: float = math.inf
    dollars_per_load: float = math.inf
    why_not: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "set": list(self.settings),
            "max_rate_per_replica": self.load,
            "replicas": self.replicas,
            "gpus": self.gpus,
            "dollars_per_hour": self.dollars_per_hour,
            "why_not": self.why_not,
        }


def parse_axes(texts: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Read ``"scheduler.max_num_seqs=64,128,256"``: a key and its values.

    Raises
    ------
    InputError : for what is not of that form, or a key that capacity sets itself.
    """
    axes = []
    for text in texts:
        key, equals, values = text.partition("=")
        key = key.strip()
        found = [value.strip() for value in split_outside(values) if value.strip()]
        if not equals or not key or not found:
            raise InputError(
                f"--search {text!r} is not of the form key=value,value, such as "
                "cluster.tensor_parallel=1,2,4"
            )
        if key == "cluster.replicas":
            raise InputError(
                "--search cluster.replicas: their number is what capacity looks for; remove it"
            )
        axes.append((key, found))
    return axes


def search(
    scenario: Scenario,
    axes: Sequence[tuple[str, Sequence[str]]],
    *,
    rate: float | None = None,
    budget: float | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Option]:
    """All combinations of the values, the cheapest first, those that are out last.

    Each is judged by one replica in replicate 0.  What cannot be among the cheapest is
    dropped after one run, at the load that it would have to carry for that.

    Parameters
    ----------
    rate : load to carry; None: of most load for the money.
    budget : dollars per hour at most.

    Raises
    ------
    InputError : when a key is unknown or no combination is left.
    """
    one = scenario
    if scenario.cluster.pools is None:
        one = scenario.with_overrides(["cluster.replicas=1"])
    ranked: list[Option] = []
    out: list[Option] = []
    guess = rate if rate is not None else System(one).load.base
    for settings in _combinations(axes):
        say(", ".join(settings))
        option, guess = _judge(one, settings, rate, budget, _to_beat(ranked), guess)
        (out if option.why_not else ranked).append(option)
        ranked.sort(key=lambda found: (found.dollars_per_load, found.gpus))
    if not ranked:
        reasons = "; ".join(f"{', '.join(o.settings)}: {o.why_not}" for o in out[:3])
        raise InputError(f"capacity: no combination is left: {reasons}")
    return ranked + out


def _combinations(axes: Sequence[tuple[str, Sequence[str]]]) -> Iterator[tuple[str, ...]]:
    keys = [key for key, _ in axes]
    for values in itertools.product(*(values for _, values in axes)):
        yield tuple(f"{key}={value}" for key, value in zip(keys, values, strict=True))


def _to_beat(ranked: Sequence[Option]) -> float:
    """Dollars per load of the last runner-up that is worth showing."""
    return ranked[RUNNERS_UP].dollars_per_load if len(ranked) > RUNNERS_UP else math.inf


def _judge(
    scenario: Scenario,
    settings: tuple[str, ...],
    rate: float | None,
    budget: float | None,
    to_beat: float,
    guess: float,
) -> tuple[Option, float]:
    """A combination, and the load to start from with the next."""
    try:
        system = System(scenario.with_overrides(parse_override(s, SEARCH) for s in settings))
    except InputError as error:
        if SEARCH in str(error):
            raise  # a key or a value that no scenario has
        return Option(settings=settings, why_not=str(error)), guess
    price = system.price_per_hour
    if budget is not None and price > budget:
        return Option(settings=settings, why_not=f"one replica costs ${price:.2f}/h"), guess
    needed = _needed(price, rate, budget, to_beat)
    if needed > 0 and not system.margin(needed, 0).met:
        why = f"does not carry {needed:.3g} {system.load.unit} per replica, which is needed"
        return Option(settings=settings, why_not=why), guess
    light = system.margin(LIGHT * guess, 0)
    if not light.met:
        why = f"{light.objective} is {light.value_ms:.4g} even at {LIGHT * guess:.3g}"
        return Option(settings=settings, why_not=why), guess
    load = greatest_load(system, 0, guess)
    if not math.isfinite(load) or load == 0:
        return Option(settings=settings, why_not="no load within reach meets the limits"), guess
    count = int(budget // price) if budget is not None and price else 1
    carried = count * load
    if rate is not None:
        count, carried = replicas_for(rate, load), rate
        if budget is not None and count * price > budget:
            why = f"{counted(count, 'replica')} at ${count * price:.2f}/h"
            return Option(settings=settings, load=load, why_not=why), load
    found = Option(
        settings=settings,
        load=load,
        replicas=count,
        gpus=count * system.gpus,
        dollars_per_hour=count * price,
        dollars_per_load=count * price / carried,
    )
    return found, load


def _needed(price: float, rate: float | None, budget: float | None, to_beat: float) -> float:
    """Load that each replica must carry to come in under the budget and the runner-up."""
    if rate is None:
        return price / to_beat
    most = min(to_beat * rate, math.inf if budget is None else budget)
    if not math.isfinite(most) or price == 0:
        return 0.0
    return rate / max(1, int(most // price))
