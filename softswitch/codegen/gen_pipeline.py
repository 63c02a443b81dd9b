"""Ingress and egress as C functions: nodes are labels, tables look up and call their actions."""

from __future__ import annotations

from softswitch.codegen.cexpr import ExprGen
from softswitch.codegen.expressions import VALID_FIELD
from softswitch.codegen.gen_actions import ActionGen, c_string
from softswitch.codegen.gen_calculations import CalculationGen, selector_key
from softswitch.codegen.gen_trace import TraceGen
from softswitch.codegen.graph import back_edges, reachable
from softswitch.codegen.layout import PASS_STEPS, Layout, Names, comment
from softswitch.codegen.model import (
    Action,
    ActionCall,
    Conditional,
    Pipeline,
    PipelineNode,
    Table,
    TableKey,
)
from softswitch.codegen.pack import field_pieces, store

ENDLESS = 3
"""The kind of env->log that counts a packet whose pass does not end."""


class PipelineGen:
    """Writes pipeline functions."""

    def __init__(
        self,
        layout: Layout,
        exprs: ExprGen,
        actions: ActionGen,
        calculations: CalculationGen,
        trace: TraceGen,
    ) -> None:
        self.layout = layout
        self.trace = trace
        self.exprs = exprs
        self.actions = actions
        self.calculations = calculations
        self.program = layout.program
        self._loops: set[tuple[str, str]] = set()
        self._exits = {
            a.id for a in self.program.actions if any(p.op == "exit" for p in a.primitives)
        }

    def function(self, pipeline: Pipeline, name: str) -> str:
        """Return the C function `name` of a pipeline."""
        names = Names()
        labels = {node: "node_" + names.take(node) for node in pipeline.nodes}
        reached = reachable(pipeline.init_node, pipeline.successors)
        self._loops = back_edges(pipeline.init_node, pipeline.successors)
        lines = [
            f"static void {name}(struct wp_ctx *ctx, struct wp_phv *phv)",
            "{",
            "    struct phv *p = (struct phv *)phv;",
            "    (void)ctx, (void)p;",
        ]
        if pipeline.init_node is None:
            return "\n".join([*lines, "}"])
        if self.layout.steps is not None:
            lines.append(f"    {self.layout.steps} = 0;")
        lines.append(f"    goto {labels[pipeline.init_node]};")
        for node_name, node in pipeline.nodes.items():
            if node_name not in reached:
                continue
            lines.append(f"{labels[node_name]}: {{ /* {comment(node_name)} */")
            self.exprs.where = f'pipeline "{pipeline.name}", node "{node_name}"'
            match node:
                case Conditional():
                    traced, condition = self.trace.condition(
                        node.name, self.exprs.condition(node.expression)
                    )
                    body = [
                        *traced,
                        f"if ({condition}) {self._goto(labels, node, node.true_next)}",
                        self._goto(labels, node, node.false_next),
                    ]
                case ActionCall():
                    body = [
                        *self._call(node.action, "NULL"),
                        *self._exit([node.action]),
                        self._goto(labels, node, node.next),
                    ]
                case Table():
                    body = self._table(node, labels)
            lines += ["    " + line for line in body]
            lines.append("}")
        self.exprs.where = ""
        return "\n".join([*lines, "}"])

    def _goto(self, labels: dict[str, str], node: PipelineNode, target: str | None) -> str:
        if target is None:
            return "return;"
        jump = f"goto {labels[target]};"
        if (node.name, target) not in self._loops:
            return jump
        spent = f"{{ pass_is_endless(ctx, p, {c_string(self._endless(target))}); return; }}"
        return f"{{ if (++{self.layout.steps} > {PASS_STEPS}) {spent} {jump} }}"

    def _endless(self, target: str) -> str:
        return (
            f'{self.exprs.where}: more than {PASS_STEPS} steps backwards, the last to "{target}": '
            "the program does not come to an end on this packet, which is dropped"
        )

    def endless_function(self) -> str:
        """Return the C function that drops a packet in an endless loop.

        The core counts and reports it.
        """
        if self.layout.steps is None:
            return ""
        return "\n".join(
            [
                "static void pass_is_endless(struct wp_ctx *ctx, struct phv *p, const char *why)",
                "{",
                "    ctx->clone_session = ctx->clone_field_list = ctx->learn_list = 0;",
                "    ctx->resubmit_field_list = ctx->recirc_field_list = 0;",
                "    p->std.mcast_grp = 0;",
                "    p->std.egress_spec = ctx->env->drop_port;",
                f"    ctx->env->log(ctx, {ENDLESS}, why, 0, NULL);",
                "}",
            ]
        )

    def _call(self, action: Action, args: str) -> list[str]:
        call = f"{self.actions.names[action.id]}(ctx, p, {args});"
        return [call, *self.trace.action(action.index)]

    def _exit(self, actions: list[Action]) -> list[str]:
        return ["if (ctx->exit_flag) return;"] if any(a.id in self._exits for a in actions) else []

    # --- tables -----------------------------------------------------------------------------

    def _table(self, table: Table, labels: dict[str, str]) -> list[str]:
        fixed = table.fixed_action
        if fixed is not None:
            following = (
                table.miss_next
                if table.next_is_hit_miss
                else table.next.get(fixed.id, table.base_default_next)
            )
            return [
                *self._call(fixed, "NULL"),
                *self._exit([fixed]),
                self._goto(labels, table, following),
            ]
        lines = [
            f"struct wp_table *t = ctx->env->tables[{table.index}];",
            *self._key(table),
            "struct wp_entry *e = t->lookup(t, key);",
        ]
        lines += self._on_hit(table)
        run = "e"
        selector = selector_key(table.action_profile or "")
        if table.type == "indirect_ws" and self.calculations.has(selector):
            lines += [
                "struct wp_entry *m = e; /* the member that runs */",
                "if (e->group != NULL) "
                "m = ctx->env->select(ctx->env, e->group, "
                f"{self.calculations.call(selector)});",
            ]
            run = "m"
        lines += self.trace.table(table.index, run)
        return lines + self._dispatch(table, run, labels)

    def _on_hit(self, table: Table) -> list[str]:
        """Return the code that runs on a hit: direct counters and meters count hits only, as in
        BMv2.
        """
        body = []
        if table.with_counters:
            body += ["e->counter.packets++;", "e->counter.bytes += ctx->ingress_length;"]
        if table.support_timeout:
            body.append("e->last_hit = ctx->now;")
        if table.direct_meter is not None:
            meter = next(m for m in self.program.meters if m.name == table.direct_meter)
            assert meter.target is not None
            body.append(f"uint32_t colour = ctx->env->direct_meter(ctx, {meter.index}, e);")
            body += self.actions.store_code(meter.target, "(uint64_t)colour", 2)
        return ["if (e->hit) {", *("    " + line for line in body), "}"] if body else []

    def _dispatch(self, table: Table, run: str, labels: dict[str, str]) -> list[str]:
        targets = {a.id: table.next.get(a.id, table.base_default_next) for a in table.actions}
        same = table.next_is_hit_miss or set(targets.values()) == {table.base_default_next}
        lines = [f"switch ({run}->action) {{"]
        for action in table.actions:
            steps = [*self._call(action, f"{run}->args"), *self._exit([action])]
            steps.append("break;" if same else self._goto(labels, table, targets[action.id]))
            lines.append(f"case {action.index}: {' '.join(steps)}")
        lines += ["default: break; /* no action */", "}"]
        if table.next_is_hit_miss:
            lines += [
                f"if (e->hit) {self._goto(labels, table, table.hit_next)}",
                self._goto(labels, table, table.miss_next),
            ]
        else:
            lines.append(self._goto(labels, table, table.base_default_next))
        return lines

    def _key(self, table: Table) -> list[str]:
        """Return the code of the lookup key; fields of invalid headers count as 0, as in BMv2."""
        size = sum(key.bytes for key in table.key)
        lines = [f"uint8_t key[{max(1, size)}];"]
        if not table.key:
            lines.append("key[0] = 0;")
        at = 0
        for key in table.key:
            base = f"key + {at}" if at else "key"
            lines += self._key_field(key, base, at)
            at += key.bytes
        return lines

    def _key_field(self, key: TableKey, base: str, at: int) -> list[str]:
        header = self.program.headers[key.header]
        if not key.bits:
            return [f"key[{at}] = 0; /* {comment(key.name)}: bit<0> */"]
        if key.field is None:
            return [
                f"key[{at}] = {self.layout.valid(key.header)} ? 1 : 0; /* {comment(key.name)} */"
            ]
        if key.element is not None:
            place, valid = self.exprs.place(key.element), self.exprs.valid(key.element.header)
        else:
            place, valid = self.layout.field(key.header, key.field), self.layout.valid(key.header)
        pieces = field_pieces(place)
        padding = (-key.bits) % 8
        if padding or place.bits != key.bits:
            pieces[0] = type(pieces[0])(
                pieces[0].code, pieces[0].bits + padding + key.bits - place.bits
            )
        lines = store(pieces, f"({base})" if at else base)
        if not header.metadata and key.field != VALID_FIELD:
            lines = [
                f"if ({valid}) {{",
                *("    " + line for line in lines),
                f"}} else memset({base}, 0, {key.bytes});",
            ]
        if key.mask is not None:
            masks = key.mask.to_bytes(key.bytes, "big")
            lines += [
                f"key[{at + i}] &= {mask:#x};" for i, mask in enumerate(masks) if mask != 0xFF
            ]
        lines[0] += f" /* {comment(key.name)}: {key.match} */"
        return lines
