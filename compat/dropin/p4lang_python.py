"""A Python with what the scripts of p4lang/tutorials import: P4Runtime's stubs, scapy, ptf.

One module of theirs is on no package index: `p4.tmp.p4config_pb2`, PI's envelope around BMv2 JSON,
which only a build of PI installs. It is made here from the message's published layout.
"""

from __future__ import annotations

from pathlib import Path

from weft.locked_venv import LockedVenv

P4CONFIG = '''\
"""p4.tmp.P4DeviceConfig: PI's envelope of a BMv2 device config, described by hand."""

from google.protobuf import descriptor_pb2, descriptor_pool, reflection

_KINDS = descriptor_pb2.FieldDescriptorProto


def _describe():
    file = descriptor_pb2.FileDescriptorProto(
        name="p4/tmp/p4config.proto", package="p4.tmp", syntax="proto3"
    )
    config = file.message_type.add(name="P4DeviceConfig")
    extras = config.nested_type.add(name="Extras")
    pair = extras.nested_type.add(name="KvEntry")
    pair.options.map_entry = True
    for number, name in ((1, "key"), (2, "value")):
        pair.field.add(
            name=name, number=number, type=_KINDS.TYPE_STRING, label=_KINDS.LABEL_OPTIONAL
        )
    extras.field.add(
        name="kv",
        number=1,
        type=_KINDS.TYPE_MESSAGE,
        label=_KINDS.LABEL_REPEATED,
        type_name=".p4.tmp.P4DeviceConfig.Extras.KvEntry",
    )
    optional = _KINDS.LABEL_OPTIONAL
    config.field.add(name="reassign", number=1, type=_KINDS.TYPE_BOOL, label=optional)
    config.field.add(
        name="extras",
        number=2,
        type=_KINDS.TYPE_MESSAGE,
        label=optional,
        type_name=".p4.tmp.P4DeviceConfig.Extras",
    )
    config.field.add(name="device_data", number=3, type=_KINDS.TYPE_BYTES, label=optional)
    return file


DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(_describe().SerializeToString())
P4DeviceConfig = reflection.MakeClass(DESCRIPTOR.message_types_by_name["P4DeviceConfig"])
'''


def _add_p4config(packages: Path) -> None:
    folder = packages / "p4" / "tmp"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text("", encoding="utf-8")
    (folder / "p4config_pb2.py").write_text(P4CONFIG, encoding="utf-8")


_VENV = LockedVenv(
    "p4lang-venv",
    ("p4rt-shell.lock", "p4lang.lock"),
    "the Python modules of p4lang's scripts",
    "weft drop-in --python",
    debian=True,
    finish=_add_p4config,
)


def ensure() -> Path:
    """Install the modules where they are not there yet; return their Python. Raises VenvError."""
    return _VENV.ensure()
