"""From the names that benchmarks write down to those of the catalogue."""

from __future__ import annotations

import re

from cost_models import catalog
from simulator.errors import InputError
from simulator.validation.measured import CannotSimulateError

# The longest that fits counts; names are compared without separators.
GPUS = {
    "h100": "h100_sxm",
    "h200": "h200_sxm",
    "b200": "b200_sxm",
    "b300": "b300",
    "gb200": "gb200",
    "gb300": "gb300",
    "a100": "a100_sxm",
    "l40s": "l40s",
    "rtxpro6000": "rtx_pro_6000",
    "rtx4090": "rtx_4090",
    "h20": "h20",
    "h100pcie": "h100_pcie",
    "h100nvl": "h100_nvl",
    "a10080gbpcie": "a100_pcie",
}
# Of the same name, but not what the catalogue has under it.
OTHER_VARIANTS = ("40gb", "pcie", "powercapped", "nvl")

_CHECKPOINT = re.compile(
    r"[-_](instruct|fp8|fp4|nvfp4|hf|it|chat|bf16|2507|0528|dynamic|v0\.1|v0\.3)(?=$|[-_])"
)

WEIGHT_DTYPES = {
    "bf16": "bf16",
    "fp16": "bf16",
    "float16": "bf16",
    "bfloat16": "bf16",
    "fp8": "fp8",
    "nvfp4": "nvfp4",
}
# Publishers whose fp8 checkpoints have a scale per block of weights.
BLOCK_SCALED = ("qwen/", "deepseek-ai/", "zai-org/")


def gpu(text: str) -> str:
    """Catalogue name of a GPU."""
    plain = re.sub(r"[^a-z0-9]", "", text.lower())
    found = [key for key in GPUS if key in plain]
    if not found or any(v in plain and v not in max(found, key=len) for v in OTHER_VARIANTS):
        try:
            return catalog.gpu(text).name
        except InputError:
            raise CannotSimulateError(f"GPU {text} is not in the catalogue") from None
    return GPUS[max(found, key=len)]


def model(text: str) -> str:
    """Catalogue name of a model."""
    known = catalog.names("models")
    name = text.split("(")[0].strip().rstrip("/").split("/")[-1].lower()
    for candidate in (name, *_shorter(name)):
        if candidate in known:
            return candidate
    raise CannotSimulateError(f"model {text} is not in the catalogue")


def _shorter(name: str) -> list[str]:
    """The name without what tells checkpoints of one shape apart, one by one."""
    found = []
    while (shorter := _CHECKPOINT.sub("", name, count=1)) != name:
        name = shorter
        found.append(name)
    return found


def weight_dtype(text: str, model_text: str) -> str:
    """Data type of the weights; a question mark after it is dropped.

    gpt-oss has its experts in mxfp4 whatever a benchmark wrote down.
    """
    if "gpt-oss" in model_text.lower():
        return "mxfp4"
    plain = text.lower().rstrip("?").strip()
    if plain == "nvfp4/mxfp4":
        plain = "nvfp4"
    if plain not in WEIGHT_DTYPES:
        raise CannotSimulateError(f"weights in {text or 'an unknown type'}")
    dtype = WEIGHT_DTYPES[plain]
    name = model_text.lower()
    if dtype == "fp8" and name.startswith(BLOCK_SCALED) and ("fp8" in name or "deepseek" in name):
        return "fp8_block"
    return dtype


def kv_dtype(text: str) -> str:
    """Data type of the KV cache; that of the activations unless said."""
    return "fp8" if text.lower().startswith("fp8") else "bf16"


def engine(text: str) -> str:
    """Catalogue name of an engine."""
    name = text.split("(")[0].strip().lower()
    name = "trtllm" if name in ("tensorrt-llm", "tensorrt_llm") else name
    if name not in catalog.names("engines"):
        raise CannotSimulateError(f"engine {name or 'unknown'} is not in the catalogue")
    return name


def version(text: str) -> str | None:
    """The release number in what a benchmark wrote down; None when there is none."""
    found = re.match(r"v?(\d+\.\d+(?:\.\d+)?)", text.strip())
    return found.group(1) if found else None
