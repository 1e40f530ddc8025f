"""Items spread over the actors of a Ray cluster."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from simulator.errors import InputError
from simulator.planning.executors.work import Done, Work, died, do

ATTEMPTS = 3


class OnRay:
    """The map over Ray actors, one per CPU of the cluster.

    Every machine of the cluster needs servecast installed; the work's files travel with it.

    Parameters
    ----------
    workers : actors; None for as many as the cluster has CPUs.
    address : of a running cluster, such as ``auto`` or ``ray://head:10001``; None starts
        one on this machine, which ends with the map.

    Raises
    ------
    InputError : Ray is not installed, or there is no cluster at the address.
    """

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise InputError(
                "--executor ray needs Ray, which is not installed; pip install 'servecast[ray]'"
            ) from None
        self.ray = ray
        self.workers = workers
        self.address = address

    def map(self, work: Work, items: Sequence[Any]) -> Iterator[Done]:
        """What came of each item, in the order in which they end.

        An actor that dies is started again and its item retried, up to `ATTEMPTS` times.
        """
        work.prepare()
        self._connect()
        try:
            yield from self._spread(work, items)
        finally:
            self.ray.shutdown()

    def _connect(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster of ours reports nothing
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        if self.address is None:
            options |= {"include_dashboard": False, "num_cpus": self.workers}
        try:
            self.ray.init(self.address, **options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError(
                f"--address {self.address}: there is no Ray cluster ({error}); start one with "
                "ray start --head, or leave --address out"
            ) from None

    def _spread(self, work: Work, items: Sequence[Any]) -> Iterator[Done]:
        ray = self.ray
        count = self.workers or int(ray.cluster_resources().get("CPU", 1))
        actor = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=ATTEMPTS - 1)(Worker)
        shipped = ray.put(work.portable())  # once into each machine's store
        idle = [actor.remote(shipped) for _ in range(min(count, len(items)))]
        waiting = deque(enumerate(items))
        running: dict[Any, tuple[int, Any]] = {}
        while waiting or running:
            while waiting and idle:
                index, item = waiting.popleft()
                worker = idle.pop()
                running[worker.do.remote(index, item)] = index, worker
            ended, _ = ray.wait(list(running))
            for future in ended:
                index, worker = running.pop(future)
                idle.append(worker)
                try:
                    yield ray.get(future)
                except ray.exceptions.RayActorError:
                    yield died(index, ATTEMPTS)


class Worker:
    """What each actor is: the work, sent once."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def do(self, index: int, item: Any) -> Done:
        """Work on one item."""
        return do(self.work, index, item)
