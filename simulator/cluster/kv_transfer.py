"""How long the KV of a prompt is on its way from one replica to another."""

from __future__ import annotations

import numpy as np


class Transfers:
    """Transfers between replicas: each takes its two ends' links, first come first served.

    A transfer waits until both are free, has them until its last byte, and does not share
    them meanwhile.  Real links are shared evenly among transfers, which brings the same bytes
    over in the same time; then the first of several comes later and the last no sooner.

    Parameters
    ----------
    block_s : seconds that a KV block keeps the links busy.
    latency_s : before the first byte; links are not busy meanwhile.
    senders, receivers : replicas at either end.
    """

    def __init__(self, block_s: float, latency_s: float, senders: int, receivers: int) -> None:
        self._block_s = block_s
        self._latency_s = latency_s
        self._sends_until_s = np.zeros(senders)
        self._reads_until_s = np.zeros(receivers)

    def arrival_s(self, sender: int, receiver: int, blocks: int, asked_s: float) -> float:
        """When the last of `blocks` is there, asked for no earlier than those before.

        Parameters
        ----------
        sender, receiver : replicas, each counted in its own pool.
        """
        free_s = max(float(self._sends_until_s[sender]), float(self._reads_until_s[receiver]))
        arrived_s = max(asked_s + self._latency_s, free_s) + blocks * self._block_s
        self._sends_until_s[sender] = self._reads_until_s[receiver] = arrived_s
        return arrived_s
