"""How the GPUs of a replica share a model."""

from __future__ import annotations

from dataclasses import dataclass

from cost_models.catalog.model_shape import Model
from cost_models.errors import InputError


@dataclass(frozen=True)
class Parallelism:
    """Sizes of a replica's groups of GPUs, as vLLM has them.

    Attributes
    ----------
    tp : tensor parallelism: GPUs that share each layer.
    pp : pipeline parallelism: stages, each with some of the layers.
    dp : data parallelism: engines with a batch and a KV cache of their own.  Each has the
        whole model but for the experts, which all of them share.
    ep : experts are dealt out over the tp · dp GPUs of a stage; without, each expert is
        split over them.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: bool = False

    def __str__(self) -> str:
        groups = {"tensor": self.tp, "pipeline": self.pp, "data": self.dp}
        return ", ".join(
            f"{name}_parallel {size}"
            for name, size in groups.items()
            if size > 1 or name == "tensor"
        )

    @property
    def gpus(self) -> int:
        """GPUs of a replica."""
        return self.tp * self.pp * self.dp

    @property
    def engine_gpus(self) -> int:
        """GPUs of one of its engines."""
        return self.tp * self.pp

    @property
    def expert_tp(self) -> int:
        """GPUs that each expert is split over."""
        return 1 if self.ep else self.tp * self.dp

    @property
    def expert_ranks(self) -> int:
        """GPUs, or groups of them, that have different experts."""
        return self.tp * self.dp if self.ep else 1

    def expert_bytes(self, model: Model) -> int:
        """Bytes of experts on the GPU of a stage that has most of them."""
        return model.expert_bytes(self.expert_tp, self.expert_ranks)

    def weight_bytes(self, model: Model) -> int:
        """Bytes of weights on that GPU, of a model that is one stage."""
        return model.weight_bytes(self.tp) - model.expert_bytes(self.tp) + self.expert_bytes(model)

    def check(self, model: Model) -> None:
        """Refuse groups that the model cannot be split over.

        Raises
        ------
        InputError : one sentence with what can.
        """
        model.check_tp(self.tp)
        experts = model.experts
        if self.ep and experts is None:
            raise InputError(
                f"expert_parallel: {model.name} has no experts; leave it off, or take a model "
                "that has."
            )
        if experts is not None and experts.intermediate_size % self.expert_tp:
            raise InputError(
                f"tensor_parallel {self.tp} and data_parallel {self.dp}: experts of "
                f"{experts.intermediate_size} rows do not split over {self.expert_tp} GPUs; "
                "take fewer, or expert_parallel."
            )
        if experts is not None and self.expert_ranks > experts.num_experts:
            raise InputError(
                f"expert_parallel over {self.expert_ranks} GPUs: {model.name} has "
                f"{experts.num_experts} experts; take fewer GPUs."
            )
        if self.pp > 1 and self.dp > 1 and experts is not None:
            raise InputError(
                f"pipeline_parallel {self.pp} and data_parallel {self.dp}: stages of engines that "
                "share experts are not simulated; take one of the two, or more tensor_parallel."
            )
        if self.pp > model.num_layers:
            raise InputError(
                f"pipeline_parallel {self.pp}: {model.name} has {model.num_layers} layers; take "
                "fewer stages."
            )
