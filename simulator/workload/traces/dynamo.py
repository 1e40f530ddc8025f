"""Sessions in Mooncake's columns: Dynamo's replay and aiperf read session_id and delay.

A row's input_length is its whole prompt, the turns before included.
"""

from simulator.workload.traces.blocks import BLOCKS
from simulator.workload.traces.cells import Elapsed, Label
from simulator.workload.traces.layout import Field, Layout
from simulator.workload.traces.mooncake import OUTPUT, PROMPT, URGENCY
from simulator.workload.traces.sessions import UNKNOWN

DYNAMO = Layout(
    name="dynamo",
    about="Dynamo or aiperf with sessions, timestamp and delay in ms",
    kinds=("jsonl", "json", "parquet"),
    fields=(
        Field("id", ("request_id",), Label(), required=False, default=""),
        Field("session", ("session_id",), Label()),
        Field("arrival", ("timestamp", "created_time"), Elapsed(1000), False, float("nan")),
        PROMPT,
        OUTPUT,
        URGENCY,
        Field("think_before", ("delay", "delay_ms"), Elapsed(1000, least=0), False, UNKNOWN),
        BLOCKS,
    ),
    block_tokens=512,
)
