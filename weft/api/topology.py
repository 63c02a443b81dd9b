"""Topologies: from a name, a file, a dict or a generator; checked and drawn."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from experiments.interactive import html
from experiments.interactive.errors import WeftError, plainly
from experiments.interactive.figures import own_style
from experiments.interactive.values import plain

if TYPE_CHECKING:
    import topologies
    from topologies.lint.findings import Finding
    from topologies.loader import Source


class Findings(list["Finding"]):
    """What is wrong with a topology, worst first: an empty list is a good one."""

    def __init__(self, name: str, found: list[Finding], also: str = "") -> None:
        """`also`: what else there is to say, such as the oversubscription."""
        super().__init__(found)
        self._name, self._also = name, also

    def __repr__(self) -> str:
        lines = [
            f"{each.severity.value}: {each.message}; {each.right}".rstrip("; ") for each in self
        ]
        verdict = f"{self._name}: {len(self) or 'no'} finding{'s' if len(self) != 1 else ''}"
        return "\n".join(filter(None, [verdict, *lines, self._also]))

    def _repr_html_(self) -> str:
        rows = [(each.severity.value, each.message, each.right) for each in self]
        if not rows:
            return f"<p>{self._name}: nothing to complain about. {self._also}</p>"
        columns = ("severity", "what", "what would be right")
        return html.table(columns, rows, title=self._name, caption=self._also)


class Topology:
    """A network: switches, hosts, links, traffic classes. It can stand in a run as `topology`."""

    @plainly
    def __init__(self, source: str | Path | Mapping[str, Any], *, name: str = "topology") -> None:
        """`source`: a name such as "leafspine", a YAML file, or what such a file says as a dict.

        `name`: of one that is a dict. Raises InputError with everything that is wrong.
        """
        # Here, so that using one name of `weft` does not load what the others need.
        from topologies import loader

        self._content: str | dict[str, Any]
        if isinstance(source, Mapping):
            content: dict[str, Any] = plain(source)
            self._content = content
            text = yaml.safe_dump({"time_scale": 1, **content}, sort_keys=False)
            self._source: Source = loader.read(text, file="<topology>", name=name)
        else:
            self._source = loader.load_source(source)
            is_name = str(source) in loader.available()
            self._content = str(source) if is_name else str(Path(source).absolute())

    @classmethod
    def generate(cls, generator: str, **settings: Any) -> Topology:
        """Make a regular fabric: `generate("leaf_spine", leaves=4, spines=2, hosts_per_leaf=4)`.

        `settings` are keys of a topology file (docs/topologies.md), such as link={"rate":
        "100Gbps"}; what is not given is as `weft topo new` has it. Raises InputError, WeftError.
        """
        return cls(_generated(generator, settings), name=generator)

    @property
    def model(self) -> topologies.Topology:
        """The typed model: `.links`, `.ports_of("s1")`, `.interfaces()` and more."""
        return self._source.topology

    @property
    def name(self) -> str:
        """Its name."""
        return self.model.name

    @property
    def switches(self) -> tuple[str, ...]:
        """The switches' names."""
        return tuple(each.name for each in self.model.switches)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts' names."""
        return tuple(each.name for each in self.model.hosts)

    @property
    def data(self) -> dict[str, Any]:
        """What its file says, or the dict that it was made of."""
        if isinstance(self._content, dict):
            return self._content
        found = self._source.document.data
        return dict(found) if isinstance(found, dict) else {}

    def run_value(self) -> str | dict[str, Any]:
        """Return it as a run has it under `topology`."""
        return self._content

    @plainly
    def check(self) -> Findings:
        """Return what is wrong with it, or works badly: the findings of `weft topo check`."""
        # Here, so that using one name of `weft` does not load what the others need.
        from mechanisms.registry import remarks
        from topologies.lint.scale import scale_faults
        from topologies.lint.topology import RULES, lint

        says_scale = "time_scale" in self.data
        rules = [each for each in RULES if says_scale or each is not scale_faults]
        report = lint(self._source, remarks(self.model), rules)
        tiers = ", ".join(str(tier) for tier in report.tiers)
        also = f"oversubscription: {tiers}" if tiers else ""
        return Findings(self.name, list(report.findings), also)

    @plainly
    def draw(self, path: str | Path | None = None) -> html.Picture:
        """Draw it; with a `path` (.svg, .png or .pdf) into that file, too."""
        from weft.topo_figure import draw  # matplotlib, which only pictures need

        with tempfile.TemporaryDirectory(prefix="weft-topo-") as scratch:
            drawn = Path(scratch) / "topology.svg"
            with own_style():
                draw(self.model, [drawn] if path is None else [drawn, Path(path)])
            return html.Picture(drawn.read_bytes(), "svg", f"topology {self.name}")

    def save(self, path: str | Path) -> Path:
        """Write it as a topology file, for `weft run-topo` and others.

        Raises FileExistsError: a file that is there already is not replaced.
        """
        path = Path(path)
        with path.open("x", encoding="utf-8") as file:
            yaml.safe_dump(self.data, file, sort_keys=False, allow_unicode=True)
        return path

    def _repr_svg_(self) -> str:
        return self.draw().data.decode()

    def __repr__(self) -> str:
        model = self.model
        return (
            f"{self.name}: {len(model.switches)} switches, {len(model.hosts)} hosts, "
            f"{len(model.links)} links"
        )


@plainly
def _generated(generator: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    # Here, so that using one name of `weft` does not load what the others need.
    from topologies import new_file

    given: dict[str, Any] = {}
    for key, value in plain(settings).items():
        # A link of which only the rate is given keeps the delay that a new file has.
        inner = value.items() if isinstance(value, dict) and key != "classes" else ()
        given |= {f"{key}.{name}": each for name, each in inner} or {key: value}
    try:
        made: dict[str, Any] = yaml.safe_load(new_file.text(generator, given))
    except ValueError as error:
        raise WeftError(str(error)) from None
    return made
