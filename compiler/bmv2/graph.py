"""Clean-up and ordering of control-flow graphs before they are written as JSON."""

from __future__ import annotations

from compiler.bmv2 import ir


def simplify(entry: ir.Block) -> None:
    """Skip empty blocks and join blocks that always follow each other, in place.

    Named blocks (parser states) keep their names; a named block is not joined into another
    named one, so that the parser keeps the program's states.
    """
    for block in ir.reachable(entry):
        _thread(block)
    changed = True
    while changed:
        changed = False
        blocks = ir.reachable(entry)
        entries = _predecessor_counts(blocks)
        for block in blocks:
            while _join(block, entries, entry):
                changed = True


def expand(entry: ir.Block) -> None:
    """Put the graphs of `Inline` operations in their place."""
    todo = ir.reachable(entry)
    while todo:
        block = todo.pop()
        for position, op in enumerate(block.ops):
            if not isinstance(op, ir.Inline):
                continue
            rest = ir.Block(op.pos, ops=block.ops[position + 1 :], end=block.end)
            block.ops = block.ops[:position]
            block.end = ir.Goto(op.entry)
            op.after.end = ir.Goto(rest)
            todo.extend([*ir.reachable(op.entry), rest])
            break


def _predecessor_counts(blocks: list[ir.Block]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for block in blocks:
        for target in ir.successors(block):
            counts[id(target)] = counts.get(id(target), 0) + 1
    return counts


def _join(block: ir.Block, entries: dict[int, int], entry: ir.Block) -> bool:
    end = block.end
    if not isinstance(end, ir.Goto):
        return False
    target = end.target
    if target is block or target is entry or entries.get(id(target), 0) != 1:
        return False
    if block.name is not None and target.name is not None:
        return False
    block.ops.extend(target.ops)
    block.end = target.end
    block.name = block.name or target.name
    return True


def _skip(block: ir.Block) -> ir.Block:
    """Return where control really goes when it goes to `block`."""
    seen: set[int] = set()
    while (
        not block.ops
        and block.name is None
        and isinstance(block.end, ir.Goto)
        and id(block) not in seen
    ):
        seen.add(id(block))
        block = block.end.target
    return block


def _thread(block: ir.Block) -> None:
    match block.end:
        case ir.Goto() as goto:
            goto.target = _skip(goto.target)
        case ir.Branch() as branch:
            branch.then, branch.otherwise = _skip(branch.then), _skip(branch.otherwise)
            if branch.then is branch.otherwise:
                block.end = ir.Goto(branch.then)
        case ir.ApplyTable() as apply:
            apply.next = _skip(apply.next) if apply.next is not None else None
            apply.hit = _skip(apply.hit) if apply.hit is not None else None
            apply.miss = _skip(apply.miss) if apply.miss is not None else None
            apply.by_action = {name: _skip(b) for name, b in apply.by_action.items()}
        case ir.Select() as select:
            for case in select.cases:
                case.target = _skip(case.target)
        case _:
            pass


def topological(entry: ir.Block) -> list[ir.Block]:
    """Return the blocks in program order, each after its predecessors (but for the heads of
    loops).
    """
    seen: set[int] = {id(entry)}
    post: list[ir.Block] = []
    stack: list[tuple[ir.Block, list[ir.Block]]] = [(entry, ir.successors(entry)[::-1])]
    while stack:
        block, todo = stack[-1]
        if not todo:
            post.append(block)
            stack.pop()
            continue
        following = todo.pop(0)
        if id(following) not in seen:
            seen.add(id(following))
            stack.append((following, ir.successors(following)[::-1]))
    return post[::-1]
