"""report.html: one page with everything in it, for handing out: no network, no script, prints well.

The lab's own README stands in it, so that who reads the numbers can read what they are about.
"""

from __future__ import annotations

import base64
import html
import mimetypes
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

from labs import wording
from labs.api import Verdict
from labs.results import CheckResult, LabResult

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #263238; max-width: 60rem; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.25rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1.05rem; margin: 1.4rem 0 .4rem; }
p, li { max-width: 46rem; } .about { color: #5c6770; margin: .2rem 0; }
table { border-collapse: collapse; font-size: .85rem; margin: .6rem 0; }
.wide { overflow-x: auto; }
th, td { padding: .25rem .7rem .25rem 0; text-align: left; vertical-align: top;
         border-bottom: 1px solid #e6eaed; }
th { color: #37424a; border-bottom-color: #9aa5ad; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.pass { color: #006b4f; font-weight: 600; } .fail { color: #b0260a; font-weight: 600; }
.other { color: #5c6770; } figure { margin: 1.2rem 0; } figure img, .readme img { max-width: 100%; }
figcaption { color: #5c6770; font-size: .85rem; }
pre { background: #f4f6f7; padding: .7rem; overflow-x: auto; font-size: .8rem; }
code { font-size: .9em; background: #f4f6f7; padding: 0 .2em; } pre code { padding: 0; }
td pre { margin: 0; padding: .2rem .4rem; }
@page { margin: 1.5cm; }
@media print { body { margin: 0; max-width: none; font-size: 10pt; } .wide { overflow: visible; }
  figure, tr, pre { break-inside: avoid; } h2, h3 { break-after: avoid; }
  pre { white-space: pre-wrap; } a { color: inherit; text-decoration: none; } }
"""
_WORDS = {Verdict.PASS: "passed", Verdict.FAIL: "failed"}


def report(result: LabResult, readme: str, folder: Path, out: Path) -> str:
    """Return the page. `folder`: the lab's, where README's images are; `out`: the figures'."""
    failed = [run for each in result.variants for run in each.runs if run.failure]
    parts = [
        _head(result),
        _section("Checks", _checks(result.checks)),
        *([_section("Runs that failed", _failures(result))] if failed else []),
        _section("Figures", _figures(result, out)) if result.figures else "",
        _section("Measured", _measured(result)),
        _section("About this lab", f'<div class="readme">{rendered(readme, folder)}</div>')
        if readme.strip()
        else "",
        _section("Parameters", _parameters(result)),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(result.title)}: {_text(result.runtime)}</title>\n"
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{''.join(parts)}</body>\n</html>\n"
    )


def rendered(markdown: str, folder: Path) -> str:
    """Return Markdown as HTML: headings one level down, images of `folder` put in, no raw HTML."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(markdown)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
        for child in token.children or ():
            if child.type == "image":
                child.attrSet("src", _embedded(str(child.attrGet("src") or ""), folder))
    return str(parser.renderer.render(tokens, parser.options, {}))


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


def _head(result: LabResult) -> str:
    kind = "pass" if result.verdict is Verdict.PASS else "fail"
    judged = [c for c in result.checks if c.verdict in (Verdict.PASS, Verdict.FAIL)]
    passed = sum(check.verdict is Verdict.PASS for check in judged)
    quick = ", quick: only some variants" if result.quick else ""
    teaches = f'<p class="about">{_text(result.teaches)}</p>' if result.teaches else ""
    return (
        f"<h1>{_text(result.title)}</h1>\n{teaches}"
        f'<p><span class="{kind}">{_WORDS[result.verdict]}</span>: {passed} of {len(judged)} '
        f"checks passed. Runtime {_text(wording.where(result))}{quick}.</p>\n"
        f'<p class="about">{_text(result.started)}, {result.wall_s:.0f} s. '
        f"{_text(', '.join(f'{name} {which}' for name, which in result.versions.items()))}; "
        f"program {_text(result.program.file)}.</p>\n"
    )


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{_text(title)}</h2>\n{body}</section>\n"


def _checks(checks: Sequence[CheckResult]) -> str:
    rows = []
    for check in checks:
        kind = check.verdict.value if check.verdict in _WORDS else "other"
        cells = [
            _cell(check.row),
            _cell(check.expected),
            _cell(wording.check_value(check), "number"),
            _cell(check.verdict.value, kind),
            _cell(check.note),
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>\n")
    heads = [("row", ""), ("expected", ""), ("found", "number"), ("verdict", ""), ("", "")]
    return _table(heads, rows)


def _failures(result: LabResult) -> str:
    rows = [
        f"<tr>{_cell(variant.title)}{_cell(str(run.seed))}{_cell(run.failure)}</tr>\n"
        for variant in result.variants
        for run in variant.runs
        if run.failure
    ]
    return _table([("variant", ""), ("seed", ""), ("why", "")], rows)


def _figures(result: LabResult, out: Path) -> str:
    return "".join(
        f'<figure><img src="{data_url(out / figure.file)}" alt="{_text(figure.caption)}">'
        f"<figcaption>{_text(figure.caption)}</figcaption></figure>\n"
        for figure in result.figures
    )


def _measured(result: LabResult) -> str:
    heads = [("variant", "")]
    heads += [(wording.heading(*each), "number") for each in wording.columns(result)]
    rows = [
        f"<tr>{_cell(title)}{''.join(_cell(cell, 'number') for cell in cells)}</tr>\n"
        for title, cells in wording.rows(result)
    ]
    return f"{_table(heads, rows)}<p>{_text(wording.statistics(result))}</p>\n"


def _parameters(result: LabResult) -> str:
    """Show what all variants have in common once, and of each what is its own."""
    contents = []
    for variant in result.variants:
        content: dict[str, Any] = dict(variant.parameters)
        if variant.transports:
            content["transport as it ran"] = variant.transports
        contents.append(content)
    common, own = split(contents)
    parts = [f"<pre>{_text(_yaml(common))}</pre>\n"] if common else []
    if any(own):
        rows = [
            f"<tr>{_cell(variant.title)}<td><pre>{_text(_yaml(each))}</pre></td></tr>\n"
            for variant, each in zip(result.variants, own, strict=True)
        ]
        parts.append(_table([("variant", ""), ("its own", "")], rows))
    if result.settings:
        parts.append(f"<h3>Settings</h3><pre>{_text(_yaml(result.settings))}</pre>\n")
    return "".join(parts)


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


def _table(heads: Iterable[tuple[str, str]], rows: Iterable[str]) -> str:
    head = "".join(f"<th{_class(kind)}>{_text(name)}</th>" for name, kind in heads)
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{"".join(rows)}</table></div>\n'


def _cell(text: str, kind: str = "") -> str:
    return f"<td{_class(kind)}>{_text(text)}</td>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _text(text: str) -> str:
    return html.escape(text, quote=True)
