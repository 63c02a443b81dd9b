"""The shape of a topology file: two forms, one with a generator, one with every part named.

time_scale: 10000                      time_scale: 10000
generator: leaf_spine                  switches: [s1, {name: s3, role: spine}]
spines: 2                              hosts: [h1]
leaves: 2                              link: {rate: 400Gbps, delay: 500ns, queue: 4MB}
hosts_per_leaf: 2                      links:
link: {rate: 400Gbps, ...}               - {a: h1, b: s1:1}
                                         - {a: s1:2, b: s3:1, rate: 100Gbps}
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_origin

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from topologies.document import Document
from topologies.errors import FieldPath, Problem, TopologyError, did_you_mean
from topologies.event_schema import EventEntry
from topologies.fields import (
    MAX_DEVICE_ID,
    CommonFile,
    Gateway,
    InterfaceAddress,
    Latency,
    LinkSettings,
    Mac,
    Model,
    Name,
    completed,
)
from topologies.generator_schema import GENERATORS, AnyGenerated


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


class LinkEntry(LinkSettings):
    """One link of the explicit form; what it leaves out comes from the file's `link`."""

    a: str
    b: str


class SwitchEntry(Model):
    """A switch: its name, its role unless the links already say it, the group it belongs to.

    `latency`: of its pipeline, `program` and `entries` (files), in the place of the file's;
    `device_id`: P4Runtime's, where no controller plans for switches.
    """

    name: Name
    role: Literal["leaf", "spine", "core", "border"] | None = None
    group: str = ""
    latency: Latency | None = None
    program: str | None = None
    entries: str | None = None
    device_id: Annotated[int, Field(ge=0, le=MAX_DEVICE_ID, strict=True)] | None = None


class InterfaceEntry(Model):
    """An interface of a host: address and MAC are chosen unless given.

    So is the gateway, which may be given where no controller plans routes.
    """

    address: InterfaceAddress | None = None
    mac: Mac | None = None
    gateway: Gateway | None = None


class HostEntry(InterfaceEntry):
    """A host: its name; `address`, `mac` and `gateway` are those of its first interface.

    A host has as many interfaces as the links say. `interfaces` lists the settings of several.
    `commands` are run in its namespace, by a shell, once everything is up.
    """

    name: Name
    group: str = ""
    interfaces: list[InterfaceEntry] = Field(default=[])
    commands: list[str] = Field(default=[])

    @model_validator(mode="after")
    def _given_once(self) -> HostEntry:
        given = self.address, self.mac, self.gateway
        if self.interfaces and any(each is not None for each in given):
            raise ValueError("give address, mac and gateway either here or under 'interfaces'")
        return self

    def settings(self, number: int) -> InterfaceEntry:
        """Return what is given for an interface."""
        if self.interfaces:
            return self.interfaces[number] if number < len(self.interfaces) else InterfaceEntry()
        return self if number == 0 else InterfaceEntry()


class ExplicitFile(CommonFile):
    """A topology with every switch, host and link named."""

    link: LinkSettings = LinkSettings()
    events: list[EventEntry] = Field(default=[])
    switches: list[Annotated[SwitchEntry, BeforeValidator(_named)]] = Field(min_length=1)
    hosts: list[Annotated[HostEntry, BeforeValidator(_named)]] = Field(default=[])
    links: list[LinkEntry] = Field(default=[])


def validate(document: Document) -> ExplicitFile | AnyGenerated:
    """Check a document against the form it uses. Raises TopologyError with every mistake."""
    if not isinstance(document.data, dict):
        message = "a topology is a mapping: start with time_scale and either generator or switches"
        raise TopologyError([document.problem((), message)])
    try:
        return _form(document).model_validate(document.data)
    except ValidationError as error:
        raise TopologyError(
            [schema_problem(document, detail, _form(document)) for detail in error.errors()]
        ) from None


def _form(document: Document) -> type[ExplicitFile] | type[AnyGenerated]:
    assert isinstance(document.data, dict)
    if "generator" not in document.data:
        return completed(ExplicitFile)
    generator = document.data["generator"]
    if not isinstance(generator, str) or generator not in GENERATORS:
        hint = did_you_mean(str(generator), GENERATORS) or f"; available: {', '.join(GENERATORS)}"
        problem = document.problem(("generator",), f"no generator {generator!r}{hint}")
        raise TopologyError([problem])
    return completed(GENERATORS[generator])


def schema_problem(document: Document, detail: Any, form: type[BaseModel]) -> Problem:
    """Return what pydantic found wrong (one of `errors()`) as people read it, with its place."""
    path: FieldPath = tuple(detail["loc"])
    kind, value = detail["type"], detail["input"]
    allowed = _fields_at(form, path[:-1])
    match kind:
        case "extra_forbidden":
            hint = did_you_mean(str(path[-1]), allowed)
            hint = hint or f": known here are {', '.join(sorted(allowed))}"
            return document.problem(path, f"unknown key {path[-1]!r}{hint}")
        case "missing":
            return document.problem(path, f"{path[-1]!r} is missing here")
        case "value_error":
            return document.problem(path, str(detail["ctx"]["error"]))
        case "int_type" | "int_parsing" | "int_from_float":
            return document.problem(path, f"must be a whole number, not {value!r}")
        case "greater_than_equal":
            return document.problem(path, f"must be at least {detail['ctx']['ge']}, not {value}")
        case "less_than_equal":
            return document.problem(path, f"must be at most {detail['ctx']['le']}, not {value}")
        case "literal_error":
            return document.problem(path, f"must be {detail['ctx']['expected']}, not {value!r}")
        case "bool_type" | "bool_parsing":
            return document.problem(path, f"must be true or false, not {value!r}")
        case "list_type":
            return document.problem(path, "must be a list")
        case "model_type" | "model_attributes_type" | "dict_type":
            return document.problem(path, f"must be a mapping, not {value!r}")
        case "string_type":
            return document.problem(path, f"must be text, not {value!r}")
        case "too_short" | "too_long":
            context = detail["ctx"]
            count = context.get("min_length") or context["max_length"]
            few = "must not be empty" if count == 1 else f"must have {count} parts"
            return document.problem(path, few)
        case _:
            return document.problem(path, str(detail["msg"]))


def _fields_at(form: type[BaseModel], path: FieldPath) -> list[str]:
    """Return the keys that the schema knows at `path`; none where the user chooses them."""
    model: type[BaseModel] | None = form
    user_key = False  # the next part is a key of the user's, such as the name of a class
    for part in path:
        if isinstance(part, int):
            continue
        if user_key:
            user_key = False
            continue
        if model is None or part not in model.model_fields:
            return []
        annotation = model.model_fields[part].annotation
        user_key = get_origin(annotation) is dict
        model = _model_in(annotation)
    if model is None or user_key:
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
