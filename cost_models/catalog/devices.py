"""GPUs: datasheet peaks, memory, links, power and a reference price."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from cost_models.catalog import files
from cost_models.errors import InputError

GIB = 2**30

# The units that compute a data type, where they go by another name.
PEAK_OF = {"fp16": "bf16", "fp8_block": "fp8", "nvfp4": "fp4"}


class Gpu(BaseModel):
    """One GPU as its datasheet has it; rates are dense (no structured sparsity).

    Attributes
    ----------
    name, aliases : catalogue name, and others that it is found by.
    title : the vendor's name.
    memory_bytes : nominal capacity.
    cuda_visible_bytes : what CUDA reports as total, the base of gpu_memory_utilization.
    memory_bandwidth_bytes_per_s : peak of the datasheet.
    peak_flops_per_s : by data type: bf16 (fp16 is the same), fp8, int8, fp4.
    compute_capability : CUDA's, as major.minor.
    link : name of the link between GPUs of one node.
    link_bytes_per_s : its rate per GPU in one direction.
    pcie_bytes_per_s : to the host, in one direction.
    network_bytes_per_s : of the network card that servers of this GPU usually have for each of
        them (InfiniBand or RoCE), in one direction; None in a user's file without it.
    tdp_w : board power.
    price_per_gpu_hour : reference in $; users override it with what they pay.
    reserved_price_per_gpu_hour : the same for a reservation of a year; None: not known.
    price_source, reserved_price_source, source : where the prices and the rest come from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    aliases: tuple[str, ...] = ()
    title: str
    memory_bytes: int = Field(gt=0)
    cuda_visible_bytes: int = Field(gt=0)
    memory_bandwidth_bytes_per_s: float = Field(gt=0)
    peak_flops_per_s: dict[str, float]
    compute_capability: str
    link: str
    link_bytes_per_s: float = Field(gt=0)
    pcie_bytes_per_s: float = Field(gt=0)
    network_bytes_per_s: float | None = Field(default=None, gt=0)
    tdp_w: float = Field(gt=0)
    price_per_gpu_hour: float = Field(ge=0)
    price_source: str
    reserved_price_per_gpu_hour: float | None = Field(default=None, ge=0)
    reserved_price_source: str = ""
    source: str

    def peak_flops(self, dtype: str = "bf16") -> float:
        """Peak dense FLOP/s for a data type.

        Raises
        ------
        InputError : when the GPU has no such unit.
        """
        key = PEAK_OF.get(dtype, dtype)
        if key not in self.peak_flops_per_s:
            raise InputError(
                f"{self.name} has no {dtype} units; it computes in "
                f"{', '.join(sorted(self.peak_flops_per_s))}."
            )
        return self.peak_flops_per_s[key]

    @property
    def is_a100(self) -> bool:
        """vLLM picks smaller batches for an A100 by its name, whatever its memory."""
        return "a100" in self.name.lower()


def gpu(name_or_path: str) -> Gpu:
    """A GPU from the catalogue, or from the user's YAML file with the same keys.

    Raises
    ------
    InputError : for an unknown name (naming the nearest), or a file with a wrong key.
    """
    path = files.find("gpus", name_or_path)
    return files.validate(Gpu, {"name": path.stem, **files.read_mapping(path)}, str(path))
