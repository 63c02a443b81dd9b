"""Tables and pictures for notebooks, and the same as text for everything else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", caption: str = ""
) -> str:
    """Return a table as HTML. Its style is the notebook's own, so that dark ones stay dark."""
    left = ' style="text-align:left"'
    head = "".join(f"<th{left}>{escape(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td{left}>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    above = f"<p><b>{escape(title)}</b></p>" if title else ""
    below = f"<p><small>{escape(caption)}</small></p>" if caption else ""
    return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def text(rows: Sequence[Sequence[str]], *, title: str = "", caption: str = "") -> str:
    """Return a table as lines of text, columns one below the other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [title] if title else []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join([*lines, caption] if caption else lines)


class Picture:
    """A figure as a file of its own would have it; a notebook shows it where it ends a cell."""

    def __init__(self, data: bytes, ending: str, what: str) -> None:
        """Hold a figure (`ending`: svg or png); `what` describes it to those who cannot see it."""
        self.data, self.ending, self.what = data, ending, what

    def save(self, path: str | Path) -> Path:
        """Write it to a file, whose ending has to be the picture's own. Raises ValueError."""
        path = Path(path)
        if path.suffix != f".{self.ending}":
            raise ValueError(f"{path}: this picture is a .{self.ending}")
        path.write_bytes(self.data)
        return path

    def _repr_svg_(self) -> str | None:
        return self.data.decode() if self.ending == "svg" else None

    def _repr_png_(self) -> bytes | None:
        return self.data if self.ending == "png" else None

    def __repr__(self) -> str:
        return f"<{self.what}, {self.ending}, {len(self.data)} bytes: .save(path) writes it>"
