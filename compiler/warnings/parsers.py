"""Warnings on parsers: cases never taken, selects that decide nothing, no way to accept."""

from __future__ import annotations

from compiler.errors import Reporter
from compiler.syntax import ast
from compiler.warnings.tables import is_constant

_KIND = "parser-transition"


def warn_parser(decl: ast.ParserDecl, reporter: Reporter, *, needed: bool) -> None:
    """Report on a parser and its states; unless `needed`, only what follows from constants."""
    states = {state.name: state for state in decl.states}
    reached = _reached(states)
    if needed and "accept" not in reached:
        reporter.warn(decl.pos, f'parser "{decl.name}" never reaches accept', "unreachable")
    for state in decl.states:
        if not isinstance(state.transition, ast.Select):
            continue
        if all(is_constant(expr) for expr in state.transition.exprs):
            _constant_select(state.transition, reporter)
        elif needed and state.name in reached:
            _select(state.transition, reporter)
    for local in decl.locals:
        if isinstance(local, ast.ValueSetDecl):
            _value_set(local, reporter)


def _reached(states: dict[str, ast.ParserState]) -> set[str]:
    """Return the names of states that some packet may reach, as far as constants show."""
    reached, todo = {"start"}, ["start"]
    while todo:
        state = states.get(todo.pop())
        if state is None:
            continue
        match state.transition:
            case ast.Name(name=name):
                following = [name]
            case ast.Select() as select:
                following = [case.target.name for case in _possible(select)]
            case _:
                following = ["reject"]
        todo += [name for name in following if name not in reached]
        reached.update(following)
    return reached


def _constant_select(select: ast.Select, reporter: Reporter) -> None:
    possible = _possible(select)
    if not possible:
        reporter.warn(select.pos, "no case matches", _KIND)
    elif _contains(possible[-1], select):
        after = select.cases.index(possible[-1]) + 1
        for case in select.cases[after:]:
            reporter.warn(case.pos, "this case is never reached", _KIND)


def _select(select: ast.Select, reporter: Reporter) -> None:
    cases, behind = select.cases, False
    kept: list[ast.SelectCase] = []
    for case in cases:
        if behind:
            reporter.warn(case.pos, "this case is behind one that matches all", _KIND)
            continue
        kept.append(case)
        behind = _matches_all(case)
    if behind and _decides_nothing(kept, changed=len(kept) < len(cases)):
        text = "where this goes does not depend on what it selects by"
        reporter.warn(select.exprs[0].pos, text, _KIND)


def _decides_nothing(cases: list[ast.SelectCase], *, changed: bool) -> bool:
    """Return whether the default case, the last one, is all that is left of cases to the same
    state.
    """
    *others, default = cases
    if not all(isinstance(e, ast.Expr) and _known(e) for case in others for e in case.keysets):
        return changed and not others
    same = [case for case in others if case.target.name == default.target.name]
    return len(same) == len(others) and (changed or bool(others))


def _known(keyset: ast.Expr) -> bool:
    match keyset:
        case ast.Wildcard() | ast.DefaultKey():
            return False
        case ast.Mask() | ast.Range():
            return False
        case ast.ListExpr(elements=elements):
            return all(_known(each) for each in elements)
        case _:
            return is_constant(keyset)


def _matches_all(case: ast.SelectCase) -> bool:
    return len(case.keysets) == 1 and isinstance(case.keysets[0], ast.Wildcard | ast.DefaultKey)


def _possible(select: ast.Select) -> list[ast.SelectCase]:
    """Return the cases that may be taken: all, unless what is selected by is constant."""
    if not all(is_constant(expr) for expr in select.exprs):
        return select.cases
    found = []
    for case in select.cases:
        inside = _contains(case, select)
        if inside is not False:
            found.append(case)
        if inside:
            break
    return found


def _contains(case: ast.SelectCase, select: ast.Select) -> bool | None:
    """Return whether a case matches constants; None if that is not known."""
    if _matches_all(case):
        return True
    results = [_matches(k, e) for k, e in zip(case.keysets, select.exprs, strict=False)]
    if any(result is False for result in results):
        return False
    return True if all(results) else None


def _matches(keyset: ast.Expr, expr: ast.Expr) -> bool | None:
    value = expr.const_value
    match keyset:
        case ast.Wildcard() | ast.DefaultKey():
            return True
        case ast.Mask(value=wanted, mask=mask):
            numbers = (value, wanted.const_value, mask.const_value)
            if all(isinstance(each, int) for each in numbers):
                got, right, bits = (int(each or 0) for each in numbers)
                return got & bits == right & bits
        case ast.Range(low=low, high=high):
            numbers = (value, low.const_value, high.const_value)
            if all(isinstance(each, int) for each in numbers):
                got, first, last = (int(each or 0) for each in numbers)
                return first <= got <= last
        case _ if value is not None and keyset.const_value is not None:
            return value == keyset.const_value
        case _ if is_constant(keyset) and is_constant(expr):
            return _member(keyset) == _member(expr)
        case _:
            pass
    return None


def _member(expr: ast.Expr) -> ast.Node | None:
    while isinstance(expr, ast.Cast):
        expr = expr.operand
    return expr.decl if isinstance(expr, ast.Member) else None


def _value_set(decl: ast.ValueSetDecl, reporter: Reporter) -> None:
    fields = getattr(decl.element, "fields", ())
    for each in fields:
        found = each.decl.annotation("match") if each.decl is not None else None
        if found is not None and "".join(found.tokens) != "exact":
            text = f'BMv2 matches value sets exactly: @match of "{each.name}" is ignored'
            reporter.warn(each.decl.pos, text, "unsupported", back_end=True)
