"""Faults of a topology that loads: most faults of real fabrics are configuration.

Each rule is a function that yields remarks; this module runs them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from topologies.lint.classes import class_faults
from topologies.lint.findings import Finding, Remark, Severity, merged
from topologies.lint.links import link_faults
from topologies.lint.paths import path_faults
from topologies.lint.pauses import pause_faults
from topologies.lint.planes import plane_faults
from topologies.lint.scale import scale_faults
from topologies.loader import Source
from topologies.oversubscription import Tier, tiers

Rule = Callable[[Source], Iterator[Remark]]

RULES: tuple[Rule, ...] = (
    link_faults,
    path_faults,
    plane_faults,
    class_faults,
    pause_faults,
    scale_faults,
)


@dataclass(frozen=True)
class LintReport:
    """All findings, worst first, and the oversubscription of each tier."""

    findings: tuple[Finding, ...]
    tiers: tuple[Tier, ...]

    def count(self, severity: Severity) -> int:
        """Return how many findings have a severity."""
        return sum(finding.severity is severity for finding in self.findings)

    def is_good(self, *, strict: bool = False) -> bool:
        """Say whether there are no errors, and when `strict` no warnings either."""
        bad = self.count(Severity.ERROR) + (self.count(Severity.WARNING) if strict else 0)
        return bad == 0


def lint(source: Source, also: Iterable[Remark] = (), rules: Iterable[Rule] = RULES) -> LintReport:
    """Run rules on a loaded topology. `also`: what mechanisms remark on it."""
    remarks = [*(remark for rule in rules for remark in rule(source)), *also]
    return LintReport(tuple(merged(remarks, source.document)), tuple(tiers(source.topology)))
