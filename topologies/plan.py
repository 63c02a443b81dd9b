"""The explicit form as a generator writes it: nodes and ports counted, links with settings."""

from __future__ import annotations

from collections.abc import Iterable

from topologies import extensions
from topologies.addressing import MAX_HOSTS_PER_LEAF
from topologies.document import Document
from topologies.errors import FieldPath, Problem, TopologyError, did_you_mean
from topologies.fields import MAX_PORT, LinkSettings, completed
from topologies.generator_schema import GeneratedFile
from topologies.own_program import OWN_KEYS
from topologies.schema import ExplicitFile, HostEntry, LinkEntry, SwitchEntry

EXAMPLE = {"rate": "rate: 400Gbps", "delay": "delay: 500ns", "queue": "queue: 1MB"}


class Plan:
    """Collects the parts of one fabric. `link_paths[i]` is what in the file says link i's settings.

    Checks come first: `need`, `fits_*` and `settings_for` note what is wrong, and the first node
    made after them raises it all.
    """

    addresses = MAX_HOSTS_PER_LEAF

    def __init__(self, spec: GeneratedFile, document: Document) -> None:
        self.spec = spec
        self.document = document
        self.problems: list[Problem] = []
        self.link_paths: list[FieldPath] = []
        self._switches: list[SwitchEntry] = []
        self._hosts: list[HostEntry] = []
        self._links: list[LinkEntry] = []
        self._ports: dict[str, int] = {}
        self._settings: dict[str, LinkSettings] = {}
        self._lacking: set[str] = set()
        self._between: dict[frozenset[str], list[int]] = {}

    def need(self, holds: bool, key: str, message: str) -> None:
        """Note a mistake at `key` unless `holds`."""
        if not holds:
            self.problems.append(self.document.problem((key,), message))

    def fits_leaf(self, hosts: int, uplinks: int, key: str) -> None:
        """Check that a leaf has ports and addresses for so many hosts and uplinks."""
        message = (
            f"a leaf has {MAX_PORT} ports for its hosts and uplinks together, "
            f"and this asks for {hosts} and {uplinks}"
        )
        self.need(hosts + uplinks <= MAX_PORT, key, message)
        self.need(
            hosts <= MAX_HOSTS_PER_LEAF or hosts + uplinks > MAX_PORT,
            key,
            f"a leaf's network has {MAX_HOSTS_PER_LEAF} addresses for hosts, not {hosts}",
        )

    def fits_spine(self, links: int, key: str) -> None:
        """Check that a switch above the leaves has ports for so many links."""
        message = (
            f"a switch has {MAX_PORT} ports and this asks for {links}: "
            "for more hosts take generator fat_tree, or more hosts on a leaf"
        )
        self.need(links <= MAX_PORT, key, message)

    def settings_for(self, kind: str) -> None:
        """Check that links of a kind have all settings; `kind` is a key of the file."""
        given = self._of_kind(kind)
        values = {"rate": given.rate, "delay": given.delay_ps, "queue": given.queue}
        for key, value in values.items():
            # What 'link' lacks was reported there; kinds of link that fall back to it lack it too.
            if value is None and (kind == "link" or key not in self._lacking):
                self._lacking.add(key)
                self.need(False, kind, f"no {key} given: add one, as {EXAMPLE[key]}")

    def _of_kind(self, kind: str) -> LinkSettings:
        if kind not in self._settings:
            own: LinkSettings = getattr(self.spec, kind)
            self._settings[kind] = own.over(self.spec.link)
        return self._settings[kind]

    def switch(self, role: str, group: str = "") -> str:
        """Add the next switch; return its name."""
        if self.problems:
            raise TopologyError(self.problems)
        name = f"s{1 + len(self._switches)}"
        entry = SwitchEntry.model_construct(name=name, role=role, group=group, latency=None)
        self._switches.append(entry)
        self._ports[name] = 0
        return name

    def switches(self, count: int, role: str, group: str = "") -> list[str]:
        """Add `count` switches; return their names."""
        return [self.switch(role, group) for _ in range(count)]

    def hosts(self, count: int, group: str = "") -> list[str]:
        """Add `count` hosts; return their names."""
        first = 1 + len(self._hosts)
        names = [f"h{n}" for n in range(first, first + count)]
        self._hosts += [
            HostEntry.model_construct(name=name, group=group, address=None, mac=None, interfaces=[])
            for name in names
        ]
        return names

    def link(self, below: str, above: str, kind: str) -> None:
        """Link two nodes by their next ports; a host is given as h1 or as h1:1."""
        between = frozenset((below.partition(":")[0], above))
        self._between.setdefault(between, []).append(len(self._links))
        given = self._of_kind(kind)
        entry = LinkEntry.model_construct(
            a=self._end(below),
            b=self._end(above),
            **{key: getattr(given, key) for key in LinkSettings.model_fields},
        )
        self._links.append(entry)
        is_given = (kind,) in self.document.positions
        self.link_paths.append((kind,) if is_given else ("link",))

    def _end(self, node: str) -> str:
        if node not in self._ports:
            return node  # a host
        self._ports[node] += 1
        return f"{node}:{self._ports[node]}"

    def explicit(self) -> ExplicitFile:
        """Return the explicit form, with overrides applied. Raises TopologyError."""
        self._override()
        if self.problems:
            raise TopologyError(self.problems)
        told = {each.key: getattr(self.spec, each.key) for each in extensions.settings("topology")}
        form: type[ExplicitFile] = completed(ExplicitFile)
        return form.model_construct(
            **told,
            time_scale=self.spec.time_scale,
            description=self.spec.description,
            latency=self.spec.latency,
            classes=self.spec.classes,
            stock_nics=self.spec.stock_nics,
            tickers=self.spec.tickers,
            **{key: getattr(self.spec, key) for key in OWN_KEYS},
            events=self.spec.events,
            link=LinkSettings(),
            switches=self._switches,
            hosts=self._hosts,
            links=self._links,
        )

    def _override(self) -> None:
        names = {entry.name for entry in self._switches}
        names |= {entry.name for entry in self._hosts}
        for i, override in enumerate(self.spec.overrides):
            path: FieldPath = ("overrides", i)
            unknown = [name for name in override.between if name not in names]
            found = self._between.get(frozenset(override.between), [])
            if unknown:
                message = f"there is no {unknown[0]!r} in this fabric"
                hint = did_you_mean(unknown[0], names)
                self.problems.append(self.document.problem((*path, "between"), message + hint))
            elif not found:
                message = f"no link between {' and '.join(override.between)} in this fabric"
                self.problems.append(self.document.problem((*path, "between"), message))
            self.override(override.between, override, path)

    def override(self, between: Iterable[str], given: LinkSettings, path: FieldPath) -> None:
        """Give the links between two nodes settings that stand at `path` in the file."""
        for number in self._between.get(frozenset(between), []):
            link = self._links[number]
            merged = given.over(link)
            changed = {key: getattr(merged, key) for key in LinkSettings.model_fields}
            self._links[number] = link.model_copy(update=changed)
            self.link_paths[number] = path
