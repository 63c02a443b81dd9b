"""Actions with their data: from P4Runtime's message to the core's index and argument values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.schema import ActionRef
from softswitch.p4runtime.status import Code, EntityError
from softswitch.p4runtime.strings import bytes_of, value_of


@dataclass(frozen=True, slots=True)
class ActionCall:
    """An action of one table with its values, and the message that says so canonically."""

    ref: ActionRef
    args: tuple[int, ...]

    @property
    def message(self) -> p4r.Action:
        """The canonical P4Runtime form."""
        return message_of(self.ref, self.args)


def message_of(ref: ActionRef, args: Sequence[int]) -> p4r.Action:
    """Return an action's canonical P4Runtime form, its argument values in parameter order."""
    message = p4r.Action(action_id=ref.action.id)
    for param, value in zip(ref.action.params, args, strict=True):
        message.params.add(param_id=param.id, value=bytes_of(param, value))
    return message


def parse(actions: Mapping[int, ActionRef], message: p4r.Action, owner: str) -> ActionCall:
    """Check `message` against the actions of `owner` (a table's or profile's name).

    Raises EntityError INVALID_ARGUMENT for an action that the owner does not have and for
    parameters that are unknown, doubled, missing or too wide (specification, "Action
    Specification").
    """
    ref = actions.get(message.action_id)
    if ref is None:
        raise EntityError(
            Code.INVALID_ARGUMENT,
            f"{owner!r} has no action with id {message.action_id} (it has "
            f"{', '.join(a.action.name for a in actions.values())})",
        )
    name = ref.action.name
    values: dict[int, int] = {}
    params = {p.id: p for p in ref.action.params}
    for given in message.params:
        param = params.get(given.param_id)
        if param is None:
            raise EntityError(
                Code.INVALID_ARGUMENT, f"action {name!r} has no parameter with id {given.param_id}"
            )
        if param.id in values:
            raise EntityError(
                Code.INVALID_ARGUMENT, f"action {name!r}: parameter {param.name!r} is given twice"
            )
        what = f"action {name!r}, parameter {param.name!r}"
        values[param.id] = value_of(param, given.value, what, Code.INVALID_ARGUMENT)
    missing = [p.name for p in ref.action.params if p.id not in values]
    if missing:
        raise EntityError(
            Code.INVALID_ARGUMENT, f"action {name!r}: no value for parameter {', '.join(missing)}"
        )
    return ActionCall(ref, tuple(values[p.id] for p in ref.action.params))
