"""Find a topology by name or path, read it and check it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from topologies.builder import build
from topologies.document import Document, parse_document
from topologies.errors import FieldPath, Problem, TopologyError, did_you_mean
from topologies.generators import generate
from topologies.model import Topology
from topologies.schema import ExplicitFile, validate

DIRECTORY = Path(__file__).parent


@dataclass(frozen=True)
class Source:
    """A topology and where its parts stand: `link_paths[i]` is what says link i's settings."""

    topology: Topology
    document: Document
    link_paths: tuple[FieldPath, ...]


def available() -> tuple[str, ...]:
    """Return the names of the topologies that come with Weft, sorted."""
    return tuple(sorted(path.stem for path in DIRECTORY.glob("*.yaml")))


def load(path_or_name: str | Path) -> Topology:
    """Load a topology by name ('leafspine') or from a YAML file ('my/net.yaml').

    Raises TopologyError, which names file, line and column of everything that is wrong.
    """
    return load_source(path_or_name).topology


def load_source(path_or_name: str | Path) -> Source:
    """Load a topology as `load` does, keeping the positions of its parts. Raises TopologyError."""
    path = Path(path_or_name)
    if path.suffix not in (".yaml", ".yml") and str(path_or_name) in available():
        path = DIRECTORY / f"{path_or_name}.yaml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        hint = did_you_mean(str(path_or_name), available())
        there = ", ".join(available())
        message = f"no such topology file{hint or f'; available by name: {there}'}"
        raise TopologyError([Problem(str(path), 1, 1, "", message)]) from None
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise TopologyError([Problem(str(path), 1, 1, "", f"can't be read: {why}")]) from None
    return read(text, file=str(path), name=path.stem)


def loads(text: str, *, file: str = "<topology>", name: str = "topology") -> Topology:
    """Load a topology from YAML text; `file` is how messages name it. Raises TopologyError."""
    return read(text, file=file, name=name).topology


def read(text: str, *, file: str = "<topology>", name: str = "topology") -> Source:
    """Load a topology from YAML text, keeping the positions of its parts. Raises TopologyError."""
    document = parse_document(text, file)
    spec = validate(document)
    if isinstance(spec, ExplicitFile):
        paths: list[FieldPath] = [("links", i) for i in range(len(spec.links))]
    else:
        spec, plan = generate(spec, document)
        paths = plan.link_paths
    return Source(build(name, spec, document), document, tuple(paths))
