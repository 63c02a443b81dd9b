"""Import of SimAI's workload files, the text that AICB writes for a training step.

    HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 4 pp: 1 vpp: 2 ga: 1
        all_gpus: 16 checkpoints: 0 checkpoint_initiates: 0 pp_comm: 0          (one line)
    1                                                                           how many layers
    name -1 FORWARD(ns KIND bytes) INPUT-GRADIENT(ns KIND bytes) WEIGHT-GRADIENT(ns KIND bytes) ns

A step is what SimAI makes of it (astra-sim's Workload.cc): forward through all layers, each
computing and then communicating; backward from the last layer on, input gradients first; weight
gradients are communicated in the background and are complete at the end of the step. KIND is NONE,
ALLREDUCE, ALLGATHER, REDUCESCATTER or ALLTOALL, over the tensor-parallel ranks (weight gradients:
the data-parallel ones), with _EP over those of an expert group, with _DP_EP over those that hold
the same experts. Left out: the sends between pipeline stages (pp_comm) and the last column, the
time of the weights' update.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from topologies.errors import Problem, TopologyError, did_you_mean

POLICY = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
_COLUMNS = 12
_KINDS = {
    "ALLREDUCE": "allreduce",
    "ALLGATHER": "allgather",
    "REDUCESCATTER": "reducescatter",
    "ALLTOALL": "alltoall",
}
_KIND = re.compile(r"([A-Z]+?)(_EP|_DP_EP)?")
_HEADER = {"model_parallel_NPU_group": "tp", "ep": "ep", "pp": "pp", "all_gpus": "ranks"}


@dataclass(frozen=True)
class Pass:
    """One direction of a layer: computing, then communicating (kind '' for nothing)."""

    compute_ns: int
    kind: str
    over: str
    size: int


@dataclass(frozen=True)
class Layer:
    """One line: its name and its three passes."""

    name: str
    forward: Pass
    input_gradient: Pass
    weight_gradient: Pass


def read_simai(text: str, file: str, without: Collection[str] = ()) -> dict[str, object]:
    """Return `ranks`, `tp`, `pp`, `ep` and `phases` of a job, as a run file would say them.

    `without`: groups (tp, dp, ep, dp_ep) whose communication is left out, because it stays inside a
    server. Raises TopologyError with every mistake and its place.
    """
    return _Reader(text, file).job(frozenset(without))


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self.lines = text.splitlines()
        self.file = file
        self.problems: list[Problem] = []
        self.layers_at: dict[str, list[int]] = {"checkpoints": [], "checkpoint_initiates": []}

    def job(self, without: frozenset[str]) -> dict[str, object]:
        header = self._header()
        layers = self._layers()
        if self.problems:
            raise TopologyError(self.problems)
        dp = header["ranks"] // (header["tp"] * header["pp"])
        ep = header["ep"]
        sizes = {"tp": header["tp"], "dp": dp, "ep": ep, "dp_ep": max(1, dp // ep)}
        step = _Step({over: 1 if over in without else size for over, size in sizes.items()})
        for layer in layers:
            step.add(f"{layer.name} forward", layer.forward)
        for number in range(len(layers) - 1, -1, -1):
            layer = layers[number]
            for again in self._recomputed(number, layers):
                step.add(f"{again.name} forward again", again.forward)
            step.add(f"{layer.name} input gradient", layer.input_gradient)
            step.add(f"{layer.name} weight gradient", layer.weight_gradient, background=True)
        return {**header, "phases": step.finished()}

    def _tell(self, line: int, column: int, message: str) -> None:
        self.problems.append(Problem(self.file, line, column, "", message))

    def _recomputed(self, number: int, layers: list[Layer]) -> list[Layer]:
        """Return the layers run forward again before layer `number` goes backward."""
        if number not in self.layers_at["checkpoint_initiates"]:
            return []
        before = [at for at in self.layers_at["checkpoints"] if at <= number]
        return layers[max(before, default=number) : number]

    # --- the header ------------------------------------------------------------------------

    def _header(self) -> dict[str, int]:
        words = list(re.finditer(r"\S+", self.lines[0] if self.lines else ""))
        if not words or words[0].group() != POLICY:
            found = words[0].group() if words else "nothing"
            message = f"no SimAI workload: the first line begins with {POLICY}, not {found}"
            self._tell(1, 1, message)
            raise TopologyError(self.problems)
        header: dict[str, int] = {}
        at = 1
        while at < len(words):
            key = words[at].group().rstrip(":")
            values = self._numbers(words, at + 1)
            if key in self.layers_at:
                self.layers_at[key] = values[1:]
                if not values or values[0] != len(values) - 1:
                    where = words[at].start() + 1
                    self._tell(1, where, f"{key}: a count, then so many layers")
            elif not values:
                self._tell(1, words[at].start() + 1, f"{key}: a number has to follow")
                at += at + 1 < len(words) and not words[at + 1].group().endswith(":")
            if key in _HEADER:
                header[_HEADER[key]] = values[0] if values else 1
                if values and values[0] < 1:
                    self._tell(1, words[at].start() + 1, f"{key}: must be at least 1")
            at += 1 + len(values)
        for key, name in _HEADER.items():
            if name not in header:
                self._tell(1, 1, f"{key}: is missing in the first line")
        return header

    @staticmethod
    def _numbers(words: list[re.Match[str]], at: int) -> list[int]:
        found: list[int] = []
        while at < len(words) and words[at].group().isdigit():
            found.append(int(words[at].group()))
            at += 1
        return found

    # --- the layers ------------------------------------------------------------------------

    def _layers(self) -> list[Layer]:
        count = self.lines[1].strip() if len(self.lines) > 1 else ""
        rows = [(2 + i, line) for i, line in enumerate(self.lines[2:], 1) if line.strip()]
        if not count.isdigit():
            self._tell(2, 1, f"the second line is the number of layers, not {count!r}")
        elif int(count) != len(rows):
            self._tell(2, 1, f"{count} layers, but {len(rows)} lines follow")
        for key, layers in self.layers_at.items():
            for layer in layers:
                if layer >= len(rows):
                    self._tell(1, 1, f"{key}: no layer {layer}: there are 0 to {len(rows) - 1}")
        found = [self._layer(number, line) for number, line in rows]
        return [layer for layer in found if layer is not None]

    def _layer(self, number: int, line: str) -> Layer | None:
        words = list(re.finditer(r"\S+", line))
        if len(words) != _COLUMNS:
            self._tell(number, 1, f"{len(words)} columns: a layer has {_COLUMNS}")
            return None
        passes = [
            self._pass(number, words[at : at + 3], group)
            for at, group in ((2, "tp"), (5, "tp"), (8, "dp"))
        ]
        forward, input_gradient, weight_gradient = passes
        if forward is None or input_gradient is None or weight_gradient is None:
            return None
        return Layer(words[0].group(), forward, input_gradient, weight_gradient)

    def _pass(self, number: int, words: list[re.Match[str]], group: str) -> Pass | None:
        time, kind, size = (word.group() for word in words)
        for text, word, what in ((time, words[0], "nanoseconds"), (size, words[2], "bytes")):
            if not text.isdigit():
                self._tell(number, word.start() + 1, f"{text!r} is not a number of {what}")
                return None
        if kind == "NONE":
            return Pass(int(time), "", group, 0)
        match = _KIND.fullmatch(kind)
        if match is None or match.group(1) not in _KINDS:
            hint = did_you_mean(kind, _KINDS) or f"; available: NONE, {', '.join(_KINDS)}"
            message = f"no communication {kind!r}{hint}, each also with _EP or _DP_EP"
            self._tell(number, words[1].start() + 1, message)
            return None
        over = {None: group, "_EP": "ep", "_DP_EP": "dp_ep"}[match.group(2)]
        return Pass(int(time), _KINDS[match.group(1)], over, int(size))


class _Step:
    """The phases of one training step, as a run file would list them."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self._sizes = sizes
        self._phases: list[dict[str, object]] = []
        self._computing_ns = 0

    def add(self, name: str, of: Pass, background: bool = False) -> None:
        self._computing_ns += of.compute_ns
        group = self._sizes[of.over]
        if not of.kind or not of.size or group < 2:
            return
        self._compute()
        size = max(of.size, group)  # at least a byte for each rank
        phase: dict[str, object] = {
            "name": name,
            of.kind: {"bytes": f"{size}B", "over": of.over},
            "background": background,
        }
        self._phases.append(phase)

    def finished(self) -> list[dict[str, object]]:
        self._compute()
        return self._phases

    def _compute(self) -> None:
        if self._computing_ns:
            self._phases.append({"compute": f"{self._computing_ns}ns"})
        self._computing_ns = 0
