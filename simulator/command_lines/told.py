"""What was not taken over from a command line, and why.

In the tables, a flag that takes a value ends in ``=``, one that takes several in ``=+``.
"""

from __future__ import annotations

from typing import NamedTuple

from simulator.command_lines.words import Arity, Option


class Told(NamedTuple):
    """A flag and a clause on it."""

    flag: str
    why: str
    matters: bool  # it changes the engine's speed, and the simulation does not follow it


Table = dict[str, str]


def arities(table: Table) -> dict[str, Arity]:
    """How many values each flag of a table takes; a switch may have ``no-`` in front."""
    found: dict[str, Arity] = {}
    for word in " ".join(table.values()).split():
        name, ends, several = word.partition("=")
        if ends:
            found[name] = "many" if several else "one"
        else:
            found |= {name: "switch", f"no-{name}": "switch"}
    return found


def explain(option: Option, program: str, ignored: Table, not_simulated: Table) -> Told:
    """Why a flag that no key stands for plays no part."""
    name = option.name.split(".")[0]
    for table, matters in ((ignored, False), (not_simulated, True)):
        for why, flags in table.items():
            if name in arities({why: flags}):
                return Told(option.written, why, matters)
    why = f"not known as a flag of `{program}`, and left out; see whether it is spelled so"
    return Told(option.written, why, matters=True)


# Flags of `vllm serve` that play no part.
SERVE_IGNORED: dict[str, str] = {
    "an address, key or log, which takes no time on the engine": (
        "disable-log-requests enable-log-requests disable-log-stats disable-uvicorn-access-log "
        "enable-log-outputs enable-request-id-headers enable-server-load-tracking "
        "allow-credentials enable-ssl-refresh disable-fastapi-docs enable-offline-docs headless "
        "enable-force-include-usage enable-prompt-tokens-details aggregate-engine-logging host= "
        "port= uds= api-key= root-path= ssl-keyfile= ssl-certfile= ssl-ca-certs= ssl-cert-reqs= "
        "uvicorn-log-level= allowed-origins= allowed-methods= allowed-headers= middleware= "
        "log-config-file= max-log-len= served-model-name= response-role= otlp-traces-endpoint= "
        "collect-detailed-traces= show-hidden-metrics-for-version= h11-max-header-count= "
        "h11-max-incomplete-event-size="
    ),
    "about text, not tokens: it changes neither lengths nor steps": (
        "trust-remote-code skip-tokenizer-init enable-auto-tool-choice return-tokens-as-token-ids "
        "trust-request-chat-template exclude-tools-when-tool-choice-none enable-reasoning "
        "tokenizer= tokenizer-mode= tokenizer-revision= chat-template= "
        "chat-template-content-format= tool-call-parser= tool-parser-plugin= reasoning-parser= "
        "revision= code-revision= hf-token= hf-config-path= config-format= generation-config= "
        "override-generation-config= max-logprobs= logprobs-mode= guided-decoding-backend= "
        "structured-outputs-config= default-chat-template-kwargs= task= runner= convert= "
        "model-impl= io-processor-plugin= logits-processors="
    ),
    "about loading the model, which is over when requests come": (
        "use-tqdm-on-load ray-workers-use-nsight load-format= download-dir= "
        "model-loader-extra-config= ignore-patterns= max-parallel-loading-workers= "
        "safetensors-load-strategy="
    ),
    "of sampling: it changes which tokens come, not when": "seed=",
    "where processes run: the simulated GPUs of a replica are one NVLink domain": (
        "worker-use-ray data-parallel-hybrid-lb data-parallel-external-lb "
        "distributed-executor-backend= master-addr= master-port= nnodes= node-rank= "
        "data-parallel-address= data-parallel-rpc-port= data-parallel-backend= "
        "data-parallel-rank= data-parallel-start-rank= data-parallel-size-local= device= "
        "worker-cls= worker-extension-cls="
    ),
    "of engines before V1, where it has no effect any more": (
        "use-v2-block-manager swap-space= num-lookahead-slots= max-seq-len-to-capture= "
        "scheduler-delay-factor= num-scheduler-steps="
    ),
}

# What changes the engine's speed or memory and is not simulated.
SERVE_NOT_SIMULATED: dict[str, str] = {
    "the engine without CUDA graphs, whose steps take the host longer": "enforce-eager",
    "other CUDA graphs or compilation than the release's default": (
        "compilation-config= cuda-graph-sizes=+ cudagraph-capture-sizes= "
        "max-cudagraph-capture-size= optimization-level="
    ),
    "expert parallelism other than vLLM's default: experts in order, and none of them twice": (
        "enable-eplb enable-dbo eplb-config= num-redundant-experts= "
        "all2all-backend= expert-placement-strategy="
    ),
    "adapters: give workload.adapters and scheduler.lora": (
        "enable-lora fully-sharded-loras lora-modules=+ max-loras= max-lora-rank= max-cpu-loras= "
        "lora-dtype="
    ),
    "the KV cache beside the GPU's memory": (
        "disable-hybrid-kv-cache-manager calculate-kv-scales cpu-offload-gb= "
        "kv-offloading-backend= kv-events-config= kv-cache-memory-bytes="
    ),
    "the KV cache's second tier: give kv_cache.kv_offloading_size, which is for each GPU": (
        "kv-offloading-size="
    ),
    "connectors between engines: give cluster.pools": "kv-transfer-config=",
    "images and sound: prompts are tokens": (
        "disable-mm-preprocessor-cache enable-mm-embeds limit-mm-per-prompt= mm-processor-kwargs= "
        "mm-encoder-tp-mode= media-io-kwargs= interleave-mm-strings= allowed-local-media-path="
    ),
    "other kernels than those that were measured": (
        "disable-custom-all-reduce disable-cascade-attn attention-backend= moe-backend= "
        "additional-config="
    ),
    "limits of prefills side by side": (
        "disable-chunked-mm-input max-num-partial-prefills= max-long-partial-prefills="
    ),
    "a file of further flags, which is not read: write them out": "config=",
    "another scheduler's own code": "scheduler-cls=",
    "the number of API servers: one waits as measured": "api-server-count=",
    "speculative decoding, whose acceptance no command tells: give scheduler.speculative": (
        "speculative-config="
    ),
    "context parallelism": "decode-context-parallel-size= prefill-context-parallel-size=",
}

# Flags of `vllm bench serve` that play no part.
BENCH_IGNORED: dict[str, str] = {
    "how the client reaches the engine": (
        "trust-remote-code insecure backend= endpoint-type= base-url= host= port= endpoint= "
        "header=+ extra-body= request-id-prefix= tokenizer= tokenizer-mode= served-model-name= "
        "ready-check-timeout-sec= logprobs="
    ),
    "what the client prints and keeps: see `servecast run --percentiles` and `--out`": (
        "save-result save-detailed append-result disable-tqdm profile plot-timeline "
        "plot-dataset-stats result-dir= result-filename= metadata= label= percentile-metrics= "
        "metric-percentiles= timeline-itl-thresholds="
    ),
    "always so here: answers have the lengths of the workload": "ignore-eos",
    "requests before the measurement": "num-warmups=",
    "of sampling: it changes which tokens come, not when": (
        "use-beam-search temperature= top-p= top-k= min-p= frequency-penalty= presence-penalty= "
        "repetition-penalty="
    ),
    "how the file is read": (
        "no-stream no-oversample disable-shuffle skip-chat-template custom-skip-chat-template "
        "hf-subset= hf-split= hf-name= hf-output-len="
    ),
}
