"""Protobuf messages of a .proto file, made when they are needed: no generated module to keep.

It takes what `jobs.proto` uses of proto3: one package, messages of scalars and of messages,
`repeated`, and services whose answers may be streams.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TOKEN = re.compile(r'\s+|//[^\n]*|("[^"\n]*"|[A-Za-z_][\w.]*|[0-9]+|[{}();=])')
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    name: getattr(_FIELD, f"TYPE_{name.upper()}")
    for name in ("double", "float", "int32", "int64", "uint32", "uint64", "bool", "string", "bytes")
}


class ProtoFileError(ValueError):
    """A .proto file that can't be read; the message says where and why."""


@dataclass(frozen=True)
class Method:
    """A call of a service: its full name as gRPC has it, and the classes of its messages."""

    path: str
    request: Any
    answer: Any
    streams: bool


@dataclass(frozen=True)
class ProtoFile:
    """The classes of a file's messages by name, and its services' calls by name."""

    messages: dict[str, Any]
    services: dict[str, dict[str, Method]]


def descriptor(text: str, name: str) -> Any:
    """Return a file's FileDescriptorProto. Raises ProtoFileError."""
    return _Reader(text, name).file()


def load(path: Path) -> ProtoFile:
    """Return what a file defines. Raises OSError, ProtoFileError."""
    described = descriptor(path.read_text(encoding="utf-8"), path.name)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(described)
    package = described.package
    classes = {
        each.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{package}.{each.name}")
        )
        for each in described.message_type
    }
    services = {
        service.name: {
            call.name: Method(
                f"/{package}.{service.name}/{call.name}",
                classes[call.input_type.rpartition(".")[2]],
                classes[call.output_type.rpartition(".")[2]],
                call.server_streaming,
            )
            for call in service.method
        }
        for service in described.service
    }
    return ProtoFile(classes, services)


class _Reader:
    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._words = list(_words(text, name))
        self._at = 0

    def file(self) -> Any:
        found = descriptor_pb2.FileDescriptorProto(name=self._name, syntax="proto3")
        while self._at < len(self._words):
            match self._next():
                case "syntax":
                    self._expect("=", '"proto3"', ";")
                case "package":
                    found.package = self._next()
                    self._expect(";")
                case "message":
                    self._message(found.message_type.add())
                case "service":
                    self._service(found.service.add())
                case word:
                    raise self._wrong(f"{word!r} is neither a message nor a service")
        names = {each.name for each in found.message_type}
        for message in found.message_type:
            for field in message.field:
                if field.type == _FIELD.TYPE_MESSAGE:
                    field.type_name = self._full(field.type_name, found.package, names)
        for service in found.service:
            for call in service.method:
                call.input_type = self._full(call.input_type, found.package, names)
                call.output_type = self._full(call.output_type, found.package, names)
        return found

    def _message(self, found: Any) -> None:
        found.name = self._next()
        self._expect("{")
        while (word := self._next()) != "}":
            repeated = word == "repeated"
            kind = self._next() if repeated else word
            field = found.field.add(
                name=self._next(),
                label=_FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL,
                type=_SCALARS.get(kind, _FIELD.TYPE_MESSAGE),
            )
            if kind not in _SCALARS:
                field.type_name = kind
            self._expect("=")
            field.number = int(self._next())
            first, *rest = field.name.split("_")
            field.json_name = first + "".join(each.capitalize() for each in rest)
            self._expect(";")

    def _service(self, found: Any) -> None:
        found.name = self._next()
        self._expect("{")
        while (word := self._next()) != "}":
            if word != "rpc":
                raise self._wrong(f"{word!r} is not an rpc")
            call = found.method.add(name=self._next())
            self._expect("(")
            call.input_type = self._next()
            self._expect(")", "returns", "(")
            answer = self._next()
            if answer == "stream":
                call.server_streaming = True
                answer = self._next()
            call.output_type = answer
            self._expect(")", ";")

    def _full(self, name: str, package: str, names: set[str]) -> str:
        if name not in names:
            raise ProtoFileError(f"{self._name}: there is no message {name!r}")
        return f".{package}.{name}"

    def _next(self) -> str:
        if self._at >= len(self._words):
            raise ProtoFileError(f"{self._name}: ends too early")
        self._at += 1
        return self._words[self._at - 1][1]

    def _expect(self, *words: str) -> None:
        for word in words:
            if (found := self._next()) != word:
                raise self._wrong(f"{word} is missing before {found!r}")

    def _wrong(self, message: str) -> ProtoFileError:
        line = self._words[self._at - 1][0]
        return ProtoFileError(f"{self._name}:{line}: {message}")


def _words(text: str, name: str) -> Iterator[tuple[int, str]]:
    """Yield words with their lines."""
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ProtoFileError(f"{name}:{line}: can't read {text[at : at + 10]!r}")
        if found[1] is not None:
            yield line, found[1]
        line += found[0].count("\n")
        at = found.end()
