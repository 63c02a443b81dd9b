"""Instances that define an extern's abstract methods: `E(args) name = { methods };`.

(Spec section 11.3.) The methods are checked here, bodies included; lowering them is not possible.
"""

from __future__ import annotations

from compiler.errors import NotSupported
from compiler.syntax import ast
from compiler.types import types as ty
from compiler.types import unify
from compiler.types.checker_base import Context, counted
from compiler.types.checker_stmt import StatementChecker, always_returns
from compiler.types.scope import suggestion


class InitializerChecker(StatementChecker):
    """`initializer(decl)`: what stands between the braces of an instance."""

    def initializer(self, decl: ast.InstanceDecl) -> None:
        """Check that the instance defines what is abstract, and nothing else."""
        made = decl.type
        if not isinstance(made, ty.Extern) or made.decl is None:
            if decl.methods is not None:
                self._fail(decl.pos, f"only instances of externs define methods, not of {made}")
            return
        abstract = {method.name: method for method in made.decl.methods if method.abstract}
        if decl.methods is not None and not abstract:
            self._fail(decl.pos, f"extern {made.name} has no abstract methods to define")
        if not abstract:
            return
        defined: set[str] = set()
        with self._nested():
            for each in decl.methods or []:
                if isinstance(each, ast.InstanceDecl):
                    with self._guard():
                        self.local(each)
            for each in decl.methods or []:
                if isinstance(each, ast.FunctionDecl):
                    defined.add(each.name)
                    with self._guard():
                        self._method(decl, made, each, abstract)
        for name, method in abstract.items():
            if name not in defined and method.annotation("optional") is None:
                self._fail(
                    decl.pos,
                    f'"{decl.name}" must define the abstract method "{name}" of {made.name}',
                    ((method.pos, "declared here"),),
                )
        self.reporter.add(NotSupported.at(decl.pos, "instances that define abstract methods"))

    def _method(
        self,
        instance: ast.InstanceDecl,
        made: ty.Extern,
        method: ast.FunctionDecl,
        abstract: dict[str, ast.MethodDecl],
    ) -> None:
        self.annotations(method.annotations)
        wanted = abstract.get(method.name)
        if wanted is None:
            hint = suggestion(method.name, abstract)
            self._fail(method.pos, f'{made.name} has no abstract method "{method.name}"{hint}')
        with self._nested():
            variables = self.type_params(method.type_params)
            params = self.params(method.params, f'method "{method.name}"')
            result = self.resolve(method.result)
            method.type = ty.Function(method.name, variables, params, result)
            context = Context("function", method, result)
            context.receiver = made
            with self._within(context), self._nested():
                for param in method.params:
                    self._declare(param)
                self.block(method.body)
        if not isinstance(result, ty.Void) and not always_returns(method.body):
            self._fail(method.pos, f'method "{method.name}" does not always return a value')
        difference = _difference(method.type, wanted, made)
        if difference:
            self._fail(
                instance.pos,
                f'method "{method.name}" of "{instance.name}" {difference}',
                ((method.pos, "defined here"), (wanted.pos, "declared here")),
            )


def _difference(given: ty.Function, declared: ast.MethodDecl, made: ty.Extern) -> str:
    """Return how a definition differs from the abstract method; empty if it does not."""
    if declared.type is None or made.decl is None:
        return ""
    of_class = {
        p.type: a
        for p, a in zip(made.decl.type_params, made.args, strict=False)
        if p.type is not None
    }
    wanted = ty.substitute(declared.type, of_class)
    if not isinstance(wanted, ty.Function):
        return ""
    left_out = wanted.params[len(given.params) :]
    if len(given.params) > len(wanted.params) or not all(p.optional for p in left_out):
        return f"must have {counted(len(wanted.params), 'parameter')}, not {len(given.params)}"
    for index, (g, w) in enumerate(zip(given.params, wanted.params, strict=False)):
        if g.direction is not w.direction or not unify.unify(w.type, g.type, {}):
            return f'has as parameter {index + 1} "{g}" where "{w}" is needed'
    if not unify.unify(wanted.result, given.result, {}):
        return f"must return {wanted.result}, not {given.result}"
    return ""
