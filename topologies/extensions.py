"""What mechanisms add to topology files: keys of a class, or of the file. This room iterates.

    extensions.install([Setting("ecn", EcnEntry, EcnMarking)])

They are handed in from above, by `mechanisms.registry` for all mechanisms. A program that only
loads topologies need not know: what is read first asks for that package by name, as one asks for a
plug-in (`ask_for_mechanisms`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from pydantic import GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, core_schema

Place = Literal["class", "topology"]

_PROVIDER = "mechanisms.registry"


def ask_for_mechanisms() -> None:
    """Have the mechanisms handed in to the rooms that iterate over them."""
    import_module(_PROVIDER).install()


@dataclass(frozen=True)
class Setting:
    """A key of topology files that a mechanism knows.

    `key`: as in the file. `type`: a pydantic annotation that takes None, which stands where the
    file has no such key; what it yields is immutable and hashable and is what `setting(key)` of the
    class or topology returns. `value`: the type of that, as the record of a running fabric keeps
    it. `place`: whose key it is.
    """

    key: str
    type: Any
    value: Any
    place: Place = "class"


_installed: tuple[Setting, ...] | None = None


def install(settings: Iterable[Setting]) -> None:
    """Take these settings, and no others, from now on.

    Raises ValueError for two with the same key.
    """
    global _installed
    found = tuple(settings)
    keys = [each.key for each in found]
    twice = {key for key in keys if keys.count(key) > 1}
    if twice:
        raise ValueError(f"two mechanisms have a setting {', '.join(sorted(twice))}")
    _installed = found


def settings(place: Place) -> tuple[Setting, ...]:
    """Return the installed settings of classes or of topologies, in the order of the registry."""
    return tuple(each for each in _all() if each.place == place)


def _all() -> tuple[Setting, ...]:
    if _installed is None:
        ask_for_mechanisms()
    assert _installed is not None, f"{_PROVIDER}.install() installs nothing"
    return _installed


@dataclass(frozen=True)
class Settings:
    """What a file says to mechanisms in one place: values by key, those alone that it gives.

    pydantic writes them as JSON and reads them back, by the types of the installed settings. It is
    loaded then and not before: the model of a topology needs none of it.
    """

    values: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, **values: Any) -> Settings:
        """Return these values; None is nothing said."""
        return cls(tuple((key, value) for key, value in values.items() if value is not None))

    @classmethod
    def said(cls, entry: Any, place: Place) -> Settings:
        """Return what a checked part of a file says."""
        return cls.of(**{each.key: getattr(entry, each.key) for each in settings(place)})

    def get(self, key: str) -> Any:
        """Return a value, None where nothing is said."""
        return dict(self.values).get(key)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self.values)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._read, serialization=core_schema.plain_serializer_function_ser_schema(cls._written)
        )

    @classmethod
    def _read(cls, data: object) -> Settings:
        if isinstance(data, Settings):
            return data
        types = {each.key: each.value for each in _all()}
        if not isinstance(data, Mapping) or not set(data) <= set(types):
            raise ValueError(f"settings are a mapping with the keys {', '.join(types)}")
        return cls.of(**{k: TypeAdapter(types[k]).validate_python(data[k]) for k in data})

    def _written(self) -> dict[str, Any]:
        types = {each.key: each.value for each in _all()}
        return {key: TypeAdapter(types[key]).dump_python(v, mode="json") for key, v in self.values}


NOTHING_SAID = Settings()
