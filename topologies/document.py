"""YAML into plain values, remembering where each one stood.

PyYAML's own loader forgets the marks and lets a repeated key win silently, and both cost a user
hours. So the node tree is walked here.
"""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from topologies.errors import FieldPath, Problem, TopologyError, field_name


@dataclass(frozen=True)
class Document:
    """A file's content (`data`: dicts, lists, scalars) and the position of each of its fields."""

    file: str
    data: object
    positions: dict[FieldPath, tuple[int, int]]

    def problem(self, path: FieldPath, message: str) -> Problem:
        """Return a problem at `path`, or at its nearest enclosing field that stands in the file."""
        line, column = self.position(path)
        return Problem(self.file, line, column, field_name(path), message)

    def position(self, path: FieldPath) -> tuple[int, int]:
        """Return line and column, from 1, of a field or of its nearest one around it."""
        at = path
        while at and at not in self.positions:
            at = at[:-1]
        return self.positions.get(at, (1, 1))


def parse_document(text: str, file: str) -> Document:
    """Parse one YAML document. `file` is how messages name it. Raises TopologyError."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        message = f"not valid YAML: {error.problem or error.context or 'unreadable'}"
        raise TopologyError([Problem(file, line, column, "", message)]) from None
    except yaml.YAMLError as error:
        raise TopologyError([Problem(file, 1, 1, "", f"not valid YAML: {error}")]) from None
    walk = _Walk(file)
    data = walk.value(root, ()) if root is not None else None
    if walk.problems:
        raise TopologyError(walk.problems)
    return Document(file, data, walk.positions)


class _Walk:
    def __init__(self, file: str) -> None:
        self.file = file
        self.positions: dict[FieldPath, tuple[int, int]] = {}
        self.problems: list[Problem] = []
        self._constructor = yaml.SafeLoader("")

    def value(self, node: yaml.Node, path: FieldPath) -> object:
        self.positions.setdefault(path, _position(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        try:
            value: object = self._constructor.construct_object(node)
            return value
        except (yaml.YAMLError, ValueError) as error:
            self._report(node, path, f"unreadable value: {error}")
            return None

    def _mapping(self, node: yaml.MappingNode, path: FieldPath) -> dict[str, object]:
        result: dict[str, object] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            here = (*path, key)
            if key in result:
                self._report(key_node, here, "this key is already given above: keep one of the two")
                continue
            # An unknown or wrong field is best shown at its name, which is where a reader looks.
            self.positions[here] = _position(key_node)
            result[key] = self.value(value_node, here)
        return result

    def _report(self, node: yaml.Node, path: FieldPath, message: str) -> None:
        line, column = _position(node)
        self.problems.append(Problem(self.file, line, column, field_name(path), message))


def _position(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1
