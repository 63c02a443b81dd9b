"""Running a lab: its variants and seeds, then its checks and figures, then the files.

    lab_run = LabRun(load("cnp-by-hand"), Request(Runtime.SIMULATOR))
    done = lab_run.run(CompiledProgram.of(compiled, lab_run.source), tell)

Everything is made in a hidden folder beside the one asked for, and takes its place when it is
whole: a run that is interrupted leaves what was there before.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller.program import CompiledProgram
from experiments import results
from experiments.api import Check, Context, Figure, Finished, Runtime, Table, Verdict
from experiments.errors import HookError, LabError, LabFileError, RuntimeMissingError
from experiments.lab_code import Hooks, blamed
from experiments.loader import Lab, Planned
from experiments.report import report
from experiments.results import CheckResult, LabResult, ProgramResult
from experiments.simulated import Job, metrics_of, simulate
from experiments.versions import versions
from mechanisms.switch_programs import choose
from simulator.fabric import target_facts
from softswitch import jobs, program_cache
from topologies.errors import Problem, TopologyError, did_you_mean
from workloads.model import RunFile

RESULTS = Path("results")
SHOWN_NAMES = 12  # of variants, in a message


@dataclass(frozen=True)
class Request:
    """What of a lab is to run, where, and where its results go.

    Empty `variants` or `seeds`: all of the lab's, without the variants that `full` alone runs.
    `program`: another P4 program than the lab's. `answer`: a file of the user's, for labs whose
    learners write no P4. `for_teachers`: the report has the text's section for teachers.
    """

    runtime: Runtime = Runtime.SIMULATOR
    variants: Sequence[str] = ()
    seeds: Sequence[int] = ()
    quick: bool = False
    full: bool = False
    out: Path | None = None
    workers: int | None = None
    program: Path | None = None
    answer: Path | None = None
    for_teachers: bool = False


@dataclass(frozen=True)
class Progress:
    """How far a lab has come. `finished`: the run that has just ended, if one has."""

    runs: int
    done: float  # runs, with the shares of those that are on the way
    text: str
    finished: Finished | None = None


Tell = Callable[[Progress], None]


@dataclass(frozen=True)
class Done:
    """A lab that ran: what results.json says, and where it is.

    `left_out`: how many of the runtime's variants did not run.
    """

    result: LabResult
    folder: Path
    failures: tuple[Finished, ...] = field(default=())
    left_out: int = 0

    @property
    def passed(self) -> bool:
        """Say whether no check and no run failed."""
        return self.result.verdict is Verdict.PASS


class LabRun:
    """One run of a lab, checked before anything starts."""

    def __init__(self, lab: Lab, request: Request) -> None:
        """Prepare the run of `lab`.

        Raises LabError: unknown variant, runtime that the lab does not have, a checks.py that lacks
        what
        it needs; RuntimeMissingError; LabFileError for a variant that is no run file.
        """
        self.lab = lab
        self.request = request
        there = lab.variants(request.runtime)
        self._there = len(there)
        require(request.runtime)
        self.chosen = _chosen(lab, there, request)
        if request.program is not None:
            self.chosen = tuple(each.with_program(self.source) for each in self.chosen)
        self.seeds = tuple(request.seeds) or lab.seeds(request.runtime)
        require_modules(lab.name, lab.entry.needs)
        self.hooks = Hooks.of(lab.folder)
        self.hooks.check(request.runtime)
        self._check_answer()
        self.time_scale = lab.time_scale(request.runtime)
        self.beside = request.runtime.is_live and lab.entry.live.beside is not None
        if self.beside and not self.hooks.get("measure_beside"):
            self.hooks.check(Runtime.SIMULATOR)
        self._own: dict[str, RunFile] = {}
        self._check_files()
        self._programs: dict[str, CompiledProgram] | None = None
        self.out = (request.out or RESULTS / lab.name).absolute()
        if self.out.exists() and not self._is_replaceable():
            raise LabError(
                f"{self.out}: holds something else than results of a lab",
                "give an empty folder, or a new one, with --out",
            )

    @property
    def source(self) -> Path:
        """The P4 program that is to be compiled for it."""
        return (self.request.program or self.lab.program).absolute()

    def compile(self, program: CompiledProgram) -> tuple[str, ...]:
        """Compile what variants name beside `program`, and read their files of entries.

        Returns a line for each reason why switches have no plan. Raises CompileError,
        EntryFileError, NotSteerableError.
        """
        found, notices = dict[str, CompiledProgram](), dict[str, None]()
        for planned in self.chosen:
            name, run = planned.variant.name, self._own.get(planned.variant.name)
            named = planned.program(self.lab.folder)
            if run is not None:
                usual = replace(program, given=False)  # else it would be every switch's
                chosen = choose(run.topology, target_facts(run.topology), default=usual)
                given = program.given and not planned.own_parameters()
                found[name] = replace(chosen.programs.program, given=given)
                notices |= dict.fromkeys(f"{name}: {notice}" for notice in chosen.notices)
            elif named is not None:
                made = program_cache.compile_program(program_cache.Job(named))
                found[name] = CompiledProgram.of(made, named)
        self._programs = found
        return tuple(notices)

    def run(self, program: CompiledProgram, tell: Tell = lambda progress: None) -> Done:
        """Run it all and write the results. KeyboardInterrupt ends it and leaves nothing.

        `program` is what `source` was compiled to. Raises OSError where nothing can be written, and
        what `compile` does where that was not called before.
        """
        if self._programs is None:
            self.compile(program)
        scratch = _scratch(self.out)
        try:
            done = self._run(scratch, program, tell)
            if self.out.exists():
                shutil.rmtree(self.out)
            _give_to_user(scratch)
            scratch.rename(self.out)
            return done
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    # --- before -----------------------------------------------------------------------------------

    def _check_answer(self) -> None:
        answer = self.request.answer
        check = self.hooks.get("check_answer")
        if answer is None:
            return
        if check is None:
            raise LabError(
                f"{self.lab.name} takes no --answer", "its text says what its learners write"
            )
        try:
            check(answer)
        except OSError as error:
            raise LabError(f"{answer}: {error.strerror}") from None
        except ValueError as error:
            raise LabError(str(error)) from None

    def _check_files(self) -> None:
        problems: dict[Problem, None] = {}
        for planned in self.chosen:
            if not planned.mapping:
                continue  # a lab that runs everything itself needs no run file
            try:
                run = planned.run_file(self.lab.folder)
                if planned.own:
                    self._own[planned.variant.name] = run
            except TopologyError as error:
                problems |= dict.fromkeys(error.problems)
        if problems:
            raise LabFileError(list(problems))

    def _is_replaceable(self) -> bool:
        if not self.out.is_dir():
            return False
        return results.is_result(self.out) or not any(self.out.iterdir())

    # --- the runs ---------------------------------------------------------------------------------

    def _run(self, scratch: Path, program: CompiledProgram, tell: Tell) -> Done:
        started, before = datetime.now(UTC), time.monotonic()
        contexts = self._contexts(scratch, program)
        finished = self._play(contexts, tell)
        table = Table(self.request.runtime, self.time_scale, finished, self.lab.names())
        checks = self._checks(table)
        figures = self._figures(table, scratch)
        if isinstance(figures, Check):
            checks, figures = [*checks, figures], []
        failures = tuple(run for run in finished if run.failure)
        failed = failures or any(check.verdict is Verdict.FAIL for check in checks)
        mappings = {
            planned.variant.name: {**planned.mapping, **planned.own_parameters()}
            for planned in self.chosen
        }
        result = LabResult(
            lab=self.lab.name,
            title=self.lab.entry.title,
            teaches=self.lab.entry.teaches,
            runtime=self.request.runtime,
            time_scale=self.time_scale,
            quick=self.request.quick,
            full=self.request.full,
            seeds=list(self.seeds),
            program=ProgramResult(
                file=program.name,
                sha256=program.sha256,
            ),
            settings=self.lab.entry.settings,
            versions=versions(),
            started=started.isoformat(timespec="seconds"),
            wall_s=round(time.monotonic() - before, 3),
            verdict=Verdict.FAIL if failed else Verdict.PASS,
            variants=[
                results.variant_result(table, variant, mappings[variant.name], scratch)
                for variant in table.variants()
            ],
            checks=[CheckResult.of(check) for check in checks],
            figures=results.figure_results(figures, scratch),
        )
        result.write(scratch)
        page = report(
            *(result, self.lab.readme, self.lab.folder, scratch),
            for_teachers=self.request.for_teachers,
        )
        (scratch / results.REPORT).write_text(page, encoding="utf-8")
        return Done(result, self.out, failures, self._there - len(self.chosen))

    def _contexts(self, scratch: Path, program: CompiledProgram) -> list[Context]:
        runtime = self.request.runtime
        own = [self._context(scratch, program, planned, seed, runtime)
               for planned, seed in self._order()]  # fmt: skip
        if not self.beside:
            return own
        return own + [
            self._context(scratch, program, planned, seed, Runtime.SIMULATOR)
            for planned, seed in self._order()
        ]

    def _order(self) -> list[tuple[Planned, int]]:
        """Return the variants and seeds in the order to run them.

        In real time a seed's variants run one after the other, under conditions as alike as
        possible.
        """
        if self.request.runtime.is_live:
            every = {seed: None for planned in self.chosen for seed in self._seeds(planned)}
            return [
                (planned, seed)
                for seed in every
                for planned in self.chosen
                if seed in self._seeds(planned)
            ]
        return [(planned, seed) for planned in self.chosen for seed in self._seeds(planned)]

    def _seeds(self, planned: Planned) -> tuple[int, ...]:
        """Return those asked for, the variant's own or the lab's."""
        return tuple(self.request.seeds) or planned.seeds or self.seeds

    def _context(
        self, scratch: Path, program: CompiledProgram, planned: Planned, seed: int, runtime: Runtime
    ) -> Context:
        folder = "beside" if runtime is not self.request.runtime else "runs"
        out = scratch / folder / planned.variant.name / f"seed-{seed}"
        out.mkdir(parents=True)
        name = planned.variant.name
        own = self._own.get(name)
        return Context(
            lab=self.lab.name,
            folder=self.lab.folder.resolve(),
            variant=planned.variant,
            mapping=planned.mapping,
            seed=seed,
            runtime=runtime,
            time_scale=self.time_scale,
            out=out,
            program=(self._programs or {}).get(name, program),
            settings=self.lab.entry.settings,
            source=planned.document,
            own=None if own is None else own.topology.own,
            full=self.request.full,
            answer=None if self.request.answer is None else self.request.answer.absolute(),
        )

    def _play(self, contexts: Sequence[Context], tell: Tell) -> list[Finished]:
        """Run all: those in real time one after the other, then those in virtual time at once."""
        ended: dict[int, Finished] = {}
        shares: dict[int, float] = {}

        def told(number: int, share: float, text: str) -> None:
            shares[number] = min(1.0, max(0.0, share))
            name = contexts[number].variant.name
            done = len(ended) + sum(shares.values())
            tell(Progress(len(contexts), done, f"{name} {text}".strip()))

        def keep(number: int, run: Finished) -> None:
            shares.pop(number, None)
            ended[number] = run
            done = len(ended) + sum(shares.values())
            tell(Progress(len(contexts), done, run.variant.name, run))

        tell(Progress(len(contexts), 0.0, ""))
        live = [i for i, context in enumerate(contexts) if context.runtime.is_live]
        virtual = [i for i, context in enumerate(contexts) if not context.runtime.is_live]
        for i in live:
            keep(i, self._live(contexts[i], lambda share, text, i=i: told(i, share, text)))  # type: ignore[misc]
        if virtual:
            workers = self.request.workers or jobs.processors()
            ours = [Job(contexts[i], self.beside) for i in virtual]
            for at, run in jobs.work(
                ours, simulate, workers=workers,
                tell=lambda number, share, text: told(virtual[number], share, text),
            ):  # fmt: skip
                context = contexts[virtual[at]]
                keep(virtual[at], run if isinstance(run, Finished) else _died(context, run))
        return [ended[i] for i in range(len(contexts))]

    def _live(self, context: Context, told: Callable[[float, str], None]) -> Finished:
        started = time.monotonic()
        metrics: Mapping[str, Any] = {}
        failure = ""
        told(0.0, f"seed {context.seed}")
        try:
            metrics = metrics_of(self.hooks, "measure_live", replace(context, tell=told))
        except Exception as error:
            failure = blamed(error)
        return Finished(
            variant=context.variant,
            seed=context.seed,
            runtime=context.runtime,
            time_scale=context.time_scale,
            folder=context.out,
            metrics=metrics,
            wall_s=time.monotonic() - started,
            failure=failure,
        )

    # --- after ------------------------------------------------------------------------------------

    def _checks(self, table: Table) -> list[Check]:
        """Return the lab's checks; if they can't be made, that is one that failed."""
        try:
            found = list(self.hooks.call("checks", table) or ())
            if not found or not all(isinstance(each, Check) for each in found):
                raise HookError(f"{self.hooks.path}: checks must return one Check or more")
        except HookError as error:
            return [_broken("checks", error)]
        return found

    def _figures(self, table: Table, scratch: Path) -> list[Figure] | Check:
        try:
            found = list(self.hooks.call("figures", table, scratch) or ())
            results.figure_results(found, scratch)
        except LabError as error:
            return _broken("figures", error)
        return found


def _died(context: Context, loss: jobs.Loss) -> Finished:
    """Return what is kept of a run whose process died."""
    return Finished(
        variant=context.variant,
        seed=context.seed,
        runtime=context.runtime,
        time_scale=context.time_scale,
        folder=context.out,
        failure=loss.of("its process"),
    )


def require(runtime: Runtime) -> None:
    """Raise RuntimeMissingError if a runtime is not on this machine, NotRootError if it needs root.

    Says nothing of the simulator, which is everywhere.
    """
    if not runtime.is_live:
        return
    from emulation.errors import ToolMissingError  # Mininet, which the simulator does without
    from emulation.session import require_root
    from emulation.switch_node import Target, require_target

    try:
        require_target(Target(runtime.value))
    except ToolMissingError as error:
        remedy = "run it on the simulator or softswitch, or install BMv2 (docs/parity.md)"
        raise RuntimeMissingError(f"{runtime} is not on this machine: {error}", remedy) from None
    require_root("weft lab run")


def require_modules(lab: str, needs: Mapping[str, str]) -> None:
    """Raise RuntimeMissingError for a module that a lab needs and Python does not have."""
    for module, remedy in needs.items():
        if importlib.util.find_spec(module) is None:
            raise RuntimeMissingError(
                f"{module}, which {lab} needs, is not on this machine", remedy
            )


def _chosen(lab: Lab, there: Iterable[Planned], request: Request) -> tuple[Planned, ...]:
    """Return the variants that are asked for. Raises LabError for none."""
    by_name = {planned.variant.name: planned for planned in there}
    if not by_name:
        raise LabError(f"{lab.name} has no variant for {request.runtime}")
    for name in request.variants:
        if name not in by_name:
            hint = did_you_mean(name, by_name)
            more = len(by_name) - SHOWN_NAMES
            names = ", ".join(list(by_name)[:SHOWN_NAMES]) + (
                f" and {more} more" if more > 0 else ""
            )
            raise LabError(
                f"{lab.name} has no variant {name!r} on {request.runtime}{hint}",
                f"choose from: {names}",
            )
    found = tuple(
        planned
        for name, planned in by_name.items()
        if (name in request.variants or not request.variants)
        and (planned.variant.quick or not request.quick)
        and (not planned.variant.full or request.full or name in request.variants)
    )
    if not found:
        raise LabError(
            f"{lab.name} marks no variant of these as quick",
            "leave --quick away, or mark one in lab.yaml: quick: true",
        )
    return found


def _scratch(out: Path) -> Path:
    """Make the hidden folder beside `out`; remove those of runs that were killed."""
    out.parent.mkdir(parents=True, exist_ok=True)
    for old in out.parent.glob(f".{out.name}.[0-9]*"):
        if not Path("/proc", old.suffix[1:]).exists():
            shutil.rmtree(old, ignore_errors=True)
    scratch = out.with_name(f".{out.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        shutil.rmtree(scratch)
    scratch.mkdir()
    return scratch


def _give_to_user(folder: Path) -> None:
    """Give results made under sudo to the caller: the next run without it has to replace them."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() != 0 or not uid.isdecimal() or not gid.isdecimal():
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, int(uid), int(gid), follow_symlinks=False)


def _broken(what: str, error: LabError) -> Check:
    return Check(f"{what} of checks.py", "no error", None, Verdict.FAIL, note=str(error))
