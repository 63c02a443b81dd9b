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

import ipaddress
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from topologies.document import Document
from topologies.errors import FieldPath, Problem, TopologyError, did_you_mean
from topologies.units import parse_duration, parse_rate, parse_size

# Interfaces are called <node>-eth<port> and Linux allows 15 characters, so names stay short.
NAME = re.compile(r"[a-z][a-z0-9_]{0,7}")
MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
MAX_PORT = 254  # 255 is the CPU port
MAX_TIME_SCALE = 10**9


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} is no node name: a small letter, then up to 7 small letters, digits or _"
        )
    return value


def _mac(value: str) -> str:
    if not MAC.fullmatch(value):
        raise ValueError(f"{value!r} is no MAC address: write it as 02:00:0a:00:01:01")
    if int(value[:2], 16) & 1:
        raise ValueError(f"{value!r} is a multicast address: make its first byte even")
    return value


def _interface(value: str) -> str:
    try:
        parsed = ipaddress.IPv4Interface(value)
    except ValueError:
        parsed = None
    if parsed is None or "/" not in value or not 8 <= parsed.network.prefixlen <= 30:
        raise ValueError(f"{value!r} is no host address: write it with its prefix, 10.0.1.1/24")
    return value


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


Name = Annotated[str, AfterValidator(_name)]
Mac = Annotated[str, AfterValidator(_mac)]
InterfaceAddress = Annotated[str, AfterValidator(_interface)]
Rate = Annotated[int, BeforeValidator(parse_rate)]
Duration = Annotated[int, BeforeValidator(parse_duration)]
Size = Annotated[int, BeforeValidator(parse_size)]
Count = Annotated[int, Field(ge=1, strict=True)]
TimeScale = Annotated[int, Field(ge=1, le=MAX_TIME_SCALE, strict=True)]


class Model(BaseModel):
    """Base of all parts of the file: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LinkSettings(Model):
    """What a link may be given: rate (bits/s), delay (picoseconds), queue (bytes, each end)."""

    rate: Rate | None = None
    delay: Duration | None = None
    queue: Size | None = None


class LinkEntry(LinkSettings):
    """One link of the explicit form; what it leaves out comes from the file's `link`."""

    a: str
    b: str


class SwitchEntry(Model):
    """A switch: its name, and its role unless the links already say it."""

    name: Name
    role: Literal["leaf", "spine"] | None = None


class HostEntry(Model):
    """A host: its name; address and MAC are chosen unless given."""

    name: Name
    address: InterfaceAddress | None = None
    mac: Mac | None = None


class ExplicitFile(Model):
    """A topology with every switch, host and link named."""

    time_scale: TimeScale
    description: str = ""
    link: LinkSettings = LinkSettings()
    switches: list[Annotated[SwitchEntry, BeforeValidator(_named)]] = Field(min_length=1)
    hosts: list[Annotated[HostEntry, BeforeValidator(_named)]] = []
    links: list[LinkEntry] = []


class LeafSpineFile(Model):
    """A two-level fabric: each leaf has one link to every spine."""

    time_scale: TimeScale
    description: str = ""
    generator: Literal["leaf_spine"]
    spines: Annotated[Count, Field(le=MAX_PORT)]
    leaves: Annotated[Count, Field(le=MAX_PORT)]
    hosts_per_leaf: Annotated[Count, Field(le=MAX_PORT - 1)]
    link: LinkSettings
    host_link: LinkSettings = LinkSettings()


GENERATORS: dict[str, type[LeafSpineFile]] = {"leaf_spine": LeafSpineFile}


def validate(document: Document) -> ExplicitFile | LeafSpineFile:
    """Check a document against the form it uses. Raises TopologyError with every mistake."""
    if not isinstance(document.data, dict):
        message = "a topology is a mapping: start with time_scale and either generator or switches"
        raise TopologyError([document.problem((), message)])
    try:
        return _form(document).model_validate(document.data)
    except ValidationError as error:
        raise TopologyError(
            [_problem(document, detail, _form(document)) for detail in error.errors()]
        ) from None


def _form(document: Document) -> type[ExplicitFile] | type[LeafSpineFile]:
    assert isinstance(document.data, dict)
    if "generator" not in document.data:
        return ExplicitFile
    generator = document.data["generator"]
    if not isinstance(generator, str) or generator not in GENERATORS:
        hint = did_you_mean(str(generator), GENERATORS) or f": there is {', '.join(GENERATORS)}"
        problem = document.problem(("generator",), f"no generator {generator!r}{hint}")
        raise TopologyError([problem])
    return GENERATORS[generator]


def _problem(document: Document, detail: Any, form: type[BaseModel]) -> Problem:
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
        case "list_type":
            return document.problem(path, "must be a list")
        case "model_type" | "model_attributes_type":
            return document.problem(path, f"must be a mapping, not {value!r}")
        case "string_type":
            return document.problem(path, f"must be text, not {value!r}")
        case "too_short":
            return document.problem(path, "must not be empty")
        case _:
            return document.problem(path, str(detail["msg"]))


def _fields_at(form: type[BaseModel], path: FieldPath) -> list[str]:
    """Return the keys that the schema knows at `path`."""
    model = form
    for part in path:
        if isinstance(part, int):
            continue
        found = _model_in(model.model_fields[part].annotation)
        if found is None:
            return []
        model = found
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
