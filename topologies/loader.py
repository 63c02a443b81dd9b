"""Find a topology by name or path, read it and check it."""

from __future__ import annotations

from pathlib import Path

from topologies.builder import build
from topologies.document import parse_document
from topologies.errors import Problem, TopologyError, did_you_mean
from topologies.generators import leaf_spine
from topologies.model import Topology
from topologies.schema import LeafSpineFile, validate

DIRECTORY = Path(__file__).parent


def available() -> tuple[str, ...]:
    """Return the names of the topologies that come with Weft, sorted."""
    return tuple(sorted(path.stem for path in DIRECTORY.glob("*.yaml")))


def load(path_or_name: str | Path) -> Topology:
    """Load a topology by name ('leafspine') or from a YAML file ('my/net.yaml').

    Raises TopologyError, which names file, line and column of everything that is wrong.
    """
    path = Path(path_or_name)
    if path.suffix not in (".yaml", ".yml") and str(path_or_name) in available():
        path = DIRECTORY / f"{path_or_name}.yaml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        hint = did_you_mean(str(path_or_name), available())
        there = ", ".join(available())
        message = f"no such topology file{hint or f': by name there is {there}'}"
        raise TopologyError([Problem(str(path), 1, 1, "", message)]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise TopologyError([Problem(str(path), 1, 1, "", f"can't be read: {error}")]) from None
    return loads(text, file=str(path), name=path.stem)


def loads(text: str, *, file: str = "<topology>", name: str = "topology") -> Topology:
    """Load a topology from YAML text; `file` is how messages name it. Raises TopologyError."""
    document = parse_document(text, file)
    spec = validate(document)
    if isinstance(spec, LeafSpineFile):
        spec = leaf_spine(spec, document)
    return build(name, spec, document)
