"""A parity run: rounds on all pairings that there are, compared with the most trusted of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path

from compat.parity.cases import Answer, Json, Packet, Round, Seen
from compat.parity.compare import (
    Difference,
    Loose,
    compared_bits,
    differences,
    unordered_ports,
    without_varying_arrays,
)
from compat.parity.coverage import Coverage
from compat.parity.live import BMV2, LiveSwitch, absent
from compat.parity.minimise import minimise
from compat.parity.report import Compiler, Example, Report, Row
from compat.parity.rounds import RoundMaker
from compat.parity.targets import Environment, InProcess, Target, TargetError, prepare
from compat.parity.wires import carries
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.status import PipelineError

DAEMON = "softswitch daemon"
PACKETS_PER_ROUND = 100
FIRST_VARIANTS = 3
"""Unlike environments that each round is tried in."""
MORE_VARIANTS = 16
"""And as many more before something is called a difference."""
MOST_VARIANTS = 64
"""And these where a running switch differs: what it left in invalid headers may be seldom met."""
LIVE_REPEATS = 3
PATIENCE = 10
MOST_EXAMPLES = 2
CHECKS, CHECK_SECONDS = 600, 120.0
LIVE_CHECKS, LIVE_CHECK_SECONDS = 60, 30.0

TRUST = ((Compiler.P4C, BMV2), (Compiler.WEFT, BMV2), (Compiler.P4C, "softswitch"))
"""Pairings that others are measured against, the most trusted first."""


@dataclass(frozen=True)
class Program:
    """A program as a compiler made it.

    Else `missing` says why not: the compiler is not there, or (`refused`) it did not take it.
    """

    json_text: str = ""
    p4info_text: str = ""
    missing: str = ""
    refused: bool = False


@dataclass(frozen=True)
class Plan:
    """What to run: so many `packets` in process, `live_packets` of them on running switches
    (none without `live`). `entries` and `replay` are the user's own. Differences are made small
    unless not `minimised`."""

    program: str
    packets: int = 1000
    live_packets: int = 300
    seed: int = 1
    entries: tuple[Json, ...] | None = None
    live: bool = True
    daemon: bool = False
    replay: Round | None = None
    cache_dir: Path | None = None
    minimised: bool = True


@dataclass
class _Pairing:
    row: Row
    target: Target
    answers: dict[int, Answer] = field(default_factory=dict)


class ParitySession:
    """One program on all pairings. `close` ends the running switches."""

    def __init__(self, plan: Plan, programs: dict[Compiler, Program]) -> None:
        """`programs` has both compilers."""
        self.plan = plan
        self.prepared: dict[Compiler, Pipeline] = {}
        programs = {compiler: self._built(compiler, of) for compiler, of in programs.items()}
        self.rows: list[Row] = []
        self._pairings: list[_Pairing] = []
        self._unlike: InProcess | None = None
        try:
            self._pair(programs)
        except BaseException:
            self.close()
            raise

    def run(self, progress: Callable[[int, int], None] = lambda done, of: None) -> Report:
        """Run all rounds. `progress` gets the number of those done. Raises TargetError."""
        report = Report(self.plan.program, self.plan.seed, 0, self.rows)
        report.p4info = self._p4info()
        if not self._pairings:
            return report
        assert self._unlike is not None
        report.coverage = Coverage.of(self._unlike.prepared.schema)
        rounds = list(self._sizes())
        for number, (size, live) in enumerate(rounds):
            progress(number, len(rounds))
            made = self._made(number, size)
            self._round(self._carried(made) if live else made, live, report)
        report.rounds = len(rounds)
        self._failures()
        return report

    def close(self) -> None:
        """End everything that was started."""
        for pairing in self._pairings:
            pairing.target.close()

    def _failures(self) -> None:
        """Mark as a difference a compiler's program that does not run where the other's does."""
        ran = {(row.compiler, row.target) for row in self.rows if not row.missing}
        for row in self.rows:
            row.failed = row.refused and (row.compiler.other, row.target) in ran

    # --- setting up -----------------------------------------------------------------------------

    def _built(self, compiler: Compiler, program: Program) -> Program:
        if not program.missing:
            try:
                self.prepared[compiler] = prepare(
                    program.json_text, program.p4info_text, self.plan.cache_dir
                )
            except PipelineError as error:
                return Program(missing=f"softswitch does not take it: {error}", refused=True)
        return program

    def _pair(self, programs: dict[Compiler, Program]) -> None:
        targets = [BMV2, "softswitch", *([DAEMON] if self.plan.daemon else [])]
        for target in targets:
            for compiler in (Compiler.P4C, Compiler.WEFT):
                row = Row(compiler, "BMv2" if target == BMV2 else target)
                self.rows.append(row)
                lacking = ""
                if target != "softswitch":
                    lacking = absent(target) if self.plan.live else "not asked for"
                if target == BMV2 and not lacking and self._has_strings(compiler):
                    lacking = "BMv2 refuses values that are strings"
                program = programs[compiler]
                row.missing = "; ".join(filter(None, (program.missing, lacking)))
                row.refused = program.refused and not lacking
                if not row.missing:
                    made = self._target(target, self.prepared[compiler])
                    self._pairings.append(_Pairing(row, made))
        # The reference's own program shows what is not defined: another compiler's might hide
        # a fault of that compiler.
        for compiler in (Compiler.P4C, Compiler.WEFT):
            if compiler in self.prepared and self._unlike is None:
                self._unlike = InProcess(self.prepared[compiler], self.plan.cache_dir)

    def _has_strings(self, compiler: Compiler) -> bool:
        prepared = self.prepared.get(compiler)
        return prepared is not None and prepared.schema.has_strings

    def _target(self, name: str, prepared: Pipeline) -> Target:
        if name == "softswitch":
            return InProcess(prepared, self.plan.cache_dir)
        return LiveSwitch(name, prepared)

    def _p4info(self) -> str:
        if len(self.prepared) < 2:
            return ""
        p4c, weft = (
            self.prepared[c].p4info.SerializeToString(deterministic=True)
            for c in (Compiler.P4C, Compiler.WEFT)
        )
        return "" if p4c == weft else "P4Info of the two compilers differs"

    def _sizes(self) -> Iterator[tuple[int, bool]]:
        """Yield (packets, whether on running switches too) of each round."""
        if self.plan.replay is not None:
            yield len(self.plan.replay.packets), True
            return
        left, live_left = self.plan.packets, self.plan.live_packets
        while left > 0:
            size = min(PACKETS_PER_ROUND, left)
            if 0 < live_left < size:
                size = live_left
            yield size, live_left > 0
            left -= size
            live_left -= size

    def _made(self, number: int, size: int) -> Round:
        if self.plan.replay is not None:
            return self.plan.replay
        assert self._unlike is not None
        return RoundMaker(self._unlike, self.plan.seed, self.plan.entries).round(number, size)

    def _carried(self, round_: Round) -> Round:
        """Return a round without the packets that the kernel drops on their way to or from a
        switch.

        Running switches would miss what the one in this process receives.
        """
        if not any(pairing.target.live for pairing in self._pairings):
            return round_
        assert self._unlike is not None
        seen = self._unlike.run(round_).seen
        kept = [p for p, answer in zip(round_.packets, seen, strict=True) if _on_wires(p, answer)]
        return round_ if len(kept) == len(round_.packets) else replace(round_, packets=tuple(kept))

    # --- a round --------------------------------------------------------------------------------

    def _round(self, round_: Round, live: bool, report: Report) -> None:
        assert self._unlike is not None
        judge = _Judge(self._unlike, round_)
        answers = self._answers(judge, live)
        if not answers:
            return
        taken = self._taken(answers, judge)
        if taken is not round_:
            round_, judge = taken, _Judge(self._unlike, taken)
            answers = self._answers(judge, live)
            if not answers:
                return
        report.answered += sum(1 for seen in judge.hint.seen if seen.count)
        schema, watched = self._unlike.prepared.schema, self._unlike.watch(round_)
        report.coverage.add(schema, round_.packets, judge.hint.seen, watched)
        base, reference = answers[0]
        for pairing, answer in answers[1:]:
            pairing.row.against = pairing.row.against or base.row.name
            found = judge.differences(base.target, pairing.target, reference, answer)
            self._count(pairing, base, found, judge, (reference, answer))
        undefined, partly = compared_bits(reference.seen, judge.loose)
        report.partly_compared += partly
        base.row.reference += len(round_.packets)
        for pairing, _ in answers:
            pairing.row.cases += len(round_.packets)
            pairing.row.undefined += undefined

    def _taken(self, answers: Sequence[tuple[_Pairing, Answer]], judge: _Judge) -> Round:
        """Return the round without updates that only some pairings refuse.

        These are differences, but the packets can be compared all the same.
        """
        base, reference = answers[0]
        apart: set[int] = set()
        refused = [[bool(text) for text in answer.refused] for _, answer in answers]
        if all(one == refused[0] for one in refused):
            return judge.round_
        for pairing, answer in answers[1:]:
            pairing.row.against = pairing.row.against or base.row.name
            found = judge.differences(base.target, pairing.target, reference, answer)
            updates = [d for d in found if d.update is not None]
            pairing.row.other += [d.text for d in updates]
            apart.update(d.update for d in updates if d.update is not None)
        if not apart:
            return judge.round_
        kept = [update for n, update in enumerate(judge.round_.setup) if n not in apart]
        return replace(judge.round_, setup=tuple(kept))

    def _answers(self, judge: _Judge, live: bool) -> list[tuple[_Pairing, Answer]]:
        """Return each pairing's answer to a round; a pairing that can't go on is out."""
        answers = []
        for pairing in [p for p in self._pairings if live or not p.target.live]:
            try:
                answers.append((pairing, judge.answer(pairing.target)))
            except TargetError as error:
                pairing.row.missing = str(error)
                pairing.row.refused = True
                pairing.target.close()
                self._pairings.remove(pairing)
        return answers

    def _count(
        self,
        pairing: _Pairing,
        base: _Pairing,
        found: Sequence[Difference],
        judge: _Judge,
        answers: tuple[Answer, Answer],
    ) -> None:
        row, round_ = pairing.row, judge.round_
        wrong = {d.packet for d in found if d.packet is not None}
        undefined, _ = compared_bits(judge.hint.seen, judge.loose)
        row.different += len(wrong)
        row.equal += len(round_.packets) - undefined - len(wrong)
        row.other += [d.text for d in found if d.packet is None]
        for difference in found:
            if len(row.examples) >= MOST_EXAMPLES:
                return
            if difference.packet is not None:
                if self.plan.minimised:
                    row.examples.append(self._example(pairing, base, round_, difference))
                else:
                    row.examples.append(Example(difference.text, round_, *answers))
                return

    def _example(
        self, pairing: _Pairing, base: _Pairing, round_: Round, difference: Difference
    ) -> Example:
        assert difference.packet is not None

        live = pairing.target.live or base.target.live

        def shows(candidate: Round) -> bool:
            try:
                judge = _Judge(self._unlike, candidate)
                if judge.loose.shape or (live and self._carried(candidate) is not candidate):
                    return False
                return any(d.packet is not None for d in self._compare(pairing, base, judge)[0])
            except TargetError:
                return False

        checks, seconds = (LIVE_CHECKS, LIVE_CHECK_SECONDS) if live else (CHECKS, CHECK_SECONDS)
        small = minimise(round_, difference.packet, shows, checks, seconds)
        found, reference, other = self._compare(pairing, base, _Judge(self._unlike, small))
        texts = [d.text for d in found if d.packet is not None] or [difference.text]
        return Example(texts[0], small, reference, other)

    def _compare(
        self, pairing: _Pairing, base: _Pairing, judge: _Judge
    ) -> tuple[list[Difference], Answer, Answer]:
        reference, other = judge.answer(base.target), judge.answer(pairing.target)
        return judge.differences(base.target, pairing.target, reference, other), reference, other


def _on_wires(packet: Packet, answer: Seen) -> bool:
    """Return whether links carry a packet, where it comes from one, and the frames it is answered
    with.
    """
    sent = packet.metadata is not None or carries(packet.data)
    return sent and all(carries(frame) for frames in answer.frames.values() for frame in frames)


class _Judge:
    """Runs one round and says what differs, looking again where something does."""

    def __init__(self, unlike: InProcess | None, round_: Round) -> None:
        assert unlike is not None
        self.round_ = round_
        self.unlike = unlike
        self.loose = Loose(unordered=unordered_ports(round_.setup))
        self.hint = unlike.run(round_)
        self._variants = 0
        self._vary(FIRST_VARIANTS)

    def answer(self, target: Target, patience: int = 1) -> Answer:
        """Return a target's answer to the round."""
        return target.run(self.round_, self.hint.seen, patience)

    def differences(
        self, base: Target, target: Target, reference: Answer, answer: Answer
    ) -> list[Difference]:
        """Return the differences that persist, however often the round is tried."""
        found = differences(reference, answer, self.loose)
        if not found:
            return []
        if self._variants < MORE_VARIANTS:
            self._vary(MORE_VARIANTS)
            found = differences(reference, answer, self.loose)
        if base.live != target.live:
            found = without_varying_arrays(found, self.loose)
        if not found or not (base.live or target.live):
            return found
        while self._variants < MOST_VARIANTS and any(d.packet is not None for d in found):
            self._vary(MORE_VARIANTS)
            found = differences(reference, answer, self.loose)
        if target.live and target.prepared is not self.unlike.prepared:
            loose = self._stale(target.prepared)
            if loose is not None and not differences(reference, answer, loose):
                return []
        # Time is real there: look again and wait longer; what then varies is the time's doing.
        reference = self.answer(base, PATIENCE)
        answer = self.answer(target, PATIENCE)
        found = differences(reference, answer, self.loose)
        for _ in range(LIVE_REPEATS if found and base.live else 0):
            self.loose.learn(reference, self.answer(base, PATIENCE))
            found = differences(reference, answer, self.loose)
            if not found:
                break
        return without_varying_arrays(found, self.loose) if base.live != target.live else found

    def _stale(self, prepared: Pipeline) -> Loose | None:
        """Return the differences that junk in invalid headers makes in the other compiler's program
        too.

        Such fields read as junk or as zero, as the compilers happen to copy them. None where the
        program differs without any junk: that is a difference.
        """
        own = InProcess(prepared, self.unlike.cache_dir)
        usual = own.run(self.round_)
        if differences(self.hint, usual, self.loose):
            return None
        loose = deepcopy(self.loose)
        for variant in range(1, MORE_VARIANTS + 1):
            loose.learn(usual, own.run_in(Environment.varied(variant), self.round_))
        return loose

    def _vary(self, count: int) -> None:
        for _ in range(count):
            self._variants += 1
            environment = Environment.varied(self._variants)
            self.loose.learn(self.hint, self.unlike.run_in(environment, self.round_))
