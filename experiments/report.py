"""report.html: one page with everything in it, for handing out: no network, no script, prints well.

The lab's own README is part of it, so that readers of the numbers know what they are about; its
section for teachers only where that is asked for.
The page itself is report.html.j2.
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import jinja2
import yaml
from markdown_it import MarkdownIt
from markupsafe import Markup

from experiments import wording
from experiments.api import Verdict
from experiments.lab_text import for_learners, relinked
from experiments.loader import ROOT
from experiments.results import LabResult

_WORDS = {Verdict.PASS: "passed", Verdict.FAIL: "failed"}


def report(
    result: LabResult, readme: str, folder: Path, out: Path, *, for_teachers: bool = False
) -> str:
    """Return the page. `folder`: the lab's, where README's images are; `out`: the figures'.

    `for_teachers`: with the text's section for teachers.
    """
    text = readme if for_teachers else for_learners(readme)
    common, own = _parameters(result)
    return _PAGES.get_template("report.html.j2").render(
        result=result,
        verdict=_WORDS[result.verdict],
        failed=[(each, run) for each in result.variants for run in each.runs if run.failure],
        figures=[(data_url(out / figure.file), figure.caption) for figure in result.figures],
        readme=Markup(rendered(text, folder)) if text.strip() else "",
        common=common,
        own=list(zip(result.variants, own, strict=True)) if any(own) else [],
        wording=wording,
    )


def rendered(markdown: str, folder: Path) -> str:
    """Return Markdown as HTML: headings one level down, images of `folder` put in, no raw HTML."""
    markdown = relinked(markdown, folder, ROOT, _picture)
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(markdown)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
        for child in token.children or ():
            if child.type == "image":
                child.attrSet("src", _embedded(str(child.attrGet("src") or ""), folder))
    return str(parser.renderer.render(tokens, parser.options, {}))


def _picture(path: Path, shown: bool) -> str | None:
    """Where a picture is until it is embedded; no other file goes with the page."""
    return quote(str(path)) if shown else None


def _embedded(source: str, folder: Path) -> str:
    """Return a picture as a data URL; an empty one, which shows its text, where it is not ours."""
    where = urlsplit(source)
    path = (folder / unquote(where.path)).resolve()
    if where.scheme or where.netloc or not where.path or not path.is_file():
        return "data:,"
    return data_url(path)


def data_url(path: Path) -> str:
    """Return a file as a data URL."""
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _parameters(result: LabResult) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what all variants have in common, and of each what is its own."""
    contents = []
    for variant in result.variants:
        content: dict[str, Any] = dict(variant.parameters)
        if variant.transports:
            content["transport as it ran"] = variant.transports
        contents.append(content)
    return split(contents)


def split(contents: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what mappings have in common, and what is left of each, at all depths."""
    common: dict[str, Any] = {}
    own: list[dict[str, Any]] = [{} for _ in contents]
    keys = dict.fromkeys(key for content in contents for key in content)
    for key in keys:
        there = [content[key] for content in contents if key in content]
        everywhere = len(there) == len(contents)
        if everywhere and all(value == there[0] for value in there):
            common[key] = there[0]
        elif everywhere and all(isinstance(value, dict) for value in there):
            inner, rests = split(there)
            if inner:
                common[key] = inner
            for left, rest in zip(own, rests, strict=True):
                if rest:
                    left[key] = rest
        else:
            for left, content in zip(own, contents, strict=True):
                if key in content:
                    left[key] = content[key]
    return common, own


def _yaml(content: object) -> str:
    if not content:
        return ""
    return yaml.safe_dump(
        content, sort_keys=False, default_flow_style=None, width=100, allow_unicode=True
    ).rstrip()


_PAGES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=jinja2.StrictUndefined,
)
_PAGES.filters["yaml"] = _yaml
