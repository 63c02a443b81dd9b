"""The fuzzers: each makes case number N of its kind from N alone, and runs it.

A case that ends in anything but an answer or one of the errors that its interface has raises
`Fault`, or whatever exception it found. What ends or stops the whole process is for `watch`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import random
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message

from compiler import CompileError
from softswitch.codegen import Bmv2Program, BuildError, JsonError, build_pipeline, generate_c
from softswitch.codegen.build import ABI, INCLUDE, compiler
from softswitch.core import CoreConfig, PortState, SwitchCore
from softswitch.core.native import native
from softswitch.core.records import CoreError
from softswitch.device import Device
from softswitch.p4runtime.pipeline import Pipeline, prepare_program, read_p4info
from softswitch.p4runtime.protos import p4i, p4r, rpc_status
from softswitch.p4runtime.schema import bind
from softswitch.p4runtime.server import SERVICE, P4RuntimeServer
from softswitch.p4runtime.service import P4RuntimeService
from softswitch.p4runtime.status import Code, PipelineError, ReadError
from softswitch.switch import Switch
from tests.fuzz import documents
from tests.fuzz.messages import mutate, mutate_bytes
from tests.random_programs.ours import compile_text
from tests.softswitch import vectors

TESTS = Path(__file__).resolve().parents[1]
GOLDEN = TESTS / "golden"
PROGRAMS = sorted((TESTS / "compiler" / "programs").glob("*.p4"))
CPU_PORT = 255
DEVICE_ID = 1
MS = 1_000_000_000  # ps
READ_IN, BUILT_IN = 4, 20
"""One of so many JSON documents is read by the C compiler, or built and run: it takes longest."""
CALL_S = 20.0
FAULTS = frozenset({Code.UNKNOWN, Code.INTERNAL})
"""What no update and no call is answered with, unless the switch itself is wrong."""


class Fault(Exception):
    """A case was answered as no case may be."""


class Fuzzer(ABC):
    """A kind of cases. `chance` draws all that a case consists of."""

    def __init__(self, *, sanitize: bool = False) -> None:
        self.sanitize = sanitize
        self._folder = tempfile.TemporaryDirectory(prefix="weft-fuzz-")
        self.cache = Path(self._folder.name)

    @abstractmethod
    def run(self, chance: random.Random) -> None:
        """Draw a case and run it."""

    def close(self) -> None:
        """Remove what was made."""
        self._folder.cleanup()


def _golden(name: str) -> Pipeline:
    config = (GOLDEN / f"{name}.json").read_bytes()
    p4info = read_p4info(GOLDEN / f"{name}.p4info.txtpb")
    program, library = prepare_program(config)
    return Pipeline(p4info, config, program, bind(p4info, program), library)


def _frames(name: str) -> list[bytes]:
    cases = vectors.recording(name)["cases"]
    return [bytes.fromhex(case["in"]["hex"]) for case in cases if "hex" in case.get("in", {})]


# --- JSON -----------------------------------------------------------------------------------------


class JsonFuzzer(Fuzzer):
    """Documents of our compiler and of p4c, broken: one error with a place, or a program."""

    def __init__(self, *, sanitize: bool = False) -> None:
        super().__init__(sanitize=sanitize)
        self.whole: list[dict[str, Any]] = []
        for path in sorted(GOLDEN.glob("*.json")):
            if "vectors" not in path.name:
                self.whole.append(json.loads(path.read_bytes()))
        for path in PROGRAMS:
            try:
                self.whole.append(compile_text(path.read_text()).json)
            except CompileError:
                continue  # programs that show an error

    def run(self, chance: random.Random) -> None:
        text = json.dumps(documents.mutate(chance.choice(self.whole), chance)).encode()
        if chance.randrange(20) == 0:
            text = mutate_bytes(text, chance)
        try:
            program = Bmv2Program.from_json(text)
            code = generate_c(program, trace=chance.randrange(2) == 0)
        except JsonError as error:
            if not error.problem or "\n" in str(error):
                raise Fault(f"an error of more or less than a line: {error}") from error
            return
        if chance.randrange(READ_IN) == 0:
            self._read(code)
        if chance.randrange(BUILT_IN) == 0:
            self._play(program, chance)

    def _read(self, code: str) -> None:
        """Have the C compiler read the code, which takes a tenth of building it."""
        source = self.cache / "read.c"
        source.write_text(code)
        flags = ["-std=c11", "-fsyntax-only", f"-I{INCLUDE}", f"-I{ABI}"]
        done = subprocess.run(
            [compiler()[0], *flags, str(source)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Fault(f"generated C is none: {done.stderr[:1000]}")

    def _play(self, program: Bmv2Program, chance: random.Random) -> None:
        try:
            library = build_pipeline(program, cache_dir=self.cache, sanitize=self.sanitize)
        except BuildError as error:
            if "gave up" in str(error):  # too large to compile: said, and no fault
                return
            raise Fault(f"generated C does not compile: {error}") from error
        with Switch(module=native(sanitize=self.sanitize)) as switch:
            try:
                switch.core.load(library)
            except CoreError:
                return  # refused, with its reason
            for size in (0, 1, 14, 60, 200, 1500):
                switch.core.inject(1, chance.randbytes(size), 0)
            switch.core.advance(MS)
            switch.core.take_output(MS)


# --- P4Info ---------------------------------------------------------------------------------------


class P4InfoFuzzer(Fuzzer):
    """P4Info, broken, beside the JSON that it came with: PipelineError, or a device to write to."""

    def __init__(self, *, sanitize: bool = False) -> None:
        super().__init__(sanitize=sanitize)
        self.pipelines = [_golden("features"), _golden("l3")]
        self.core = SwitchCore(CoreConfig(cpu_port=CPU_PORT))
        self.device = Device(self.core, clock=lambda: 0)

    def run(self, chance: random.Random) -> None:
        pipeline = chance.choice(self.pipelines)
        p4info = p4i.P4Info()
        p4info.CopyFrom(pipeline.p4info)
        mutate(p4info, chance, [each.p4info for each in self.pipelines])
        try:
            self.device.load(self.device.prepare(p4info, pipeline.device_config))
        except PipelineError as error:
            if not str(error):
                raise Fault("an error without a word") from error
            return
        draw = RequestDraw(p4info, chance)
        for _ in range(12):
            statuses = self.device.write([draw.update() for _ in range(chance.randint(1, 4))])
            check_codes(status.code for status in statuses)
        try:
            list(self.device.read([p4r.Entity(table_entry=p4r.TableEntry())]))
        except ReadError as error:
            check_codes(status.code for status in error.statuses)

    def close(self) -> None:
        self.core.close()
        super().close()


def check_codes(codes: Iterator[Code] | Sequence[Code]) -> None:
    """Raise Fault for codes that say that the switch is at fault."""
    for code in codes:
        if code in FAULTS:
            raise Fault(f"an update was answered with {Code(code).name}")


# --- requests -------------------------------------------------------------------------------------


class RequestDraw:
    """Updates that fit a P4Info, and such as do not quite."""

    def __init__(self, p4info: p4i.P4Info, chance: random.Random) -> None:
        self.p4info = p4info
        self.chance = chance
        self.made: list[p4r.Update] = []

    def update(self) -> p4r.Update:
        """One update, broken half of the time; sometimes one that was there before."""
        chance = self.chance
        if self.made and chance.randrange(4) == 0:
            update = p4r.Update()
            update.CopyFrom(chance.choice(self.made))
            update.type = chance.choice((1, 2, 3))
        else:
            update = p4r.Update(type=chance.choice((1, 1, 1, 2, 3)), entity=self.entity())
        if chance.randrange(2):
            mutate(update, chance, self.made[-8:])
        self.made.append(update)
        return update

    def entity(self) -> p4r.Entity:
        """Draw an entity that P4Info allows, mostly."""
        chance, info = self.chance, self.p4info
        entity = p4r.Entity()
        kinds: list[Callable[[p4r.Entity], None]] = [self._pre]
        kinds += [self._table] * 6 if info.tables else []
        kinds += [self._member, self._group, self._group] if info.action_profiles else []
        kinds += [self._counter] if info.counters else []
        kinds += [self._meter] if info.meters else []
        kinds += [self._register] if info.registers else []
        kinds += [self._digest] if info.digests else []
        kinds += [self._value_set] if info.value_sets else []
        chance.choice(kinds)(entity)
        return entity

    def _value(self, bits: int) -> bytes:
        value = self.chance.getrandbits(bits) if self.chance.randrange(2) and bits > 0 else 1
        return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")

    def _action(self, action: p4r.Action, ids: Sequence[int]) -> None:
        known = {each.preamble.id: each for each in self.p4info.actions}
        number = self.chance.choice(list(ids)) if ids else 1
        action.action_id = number
        for param in known[number].params if number in known else ():
            action.params.add(param_id=param.id, value=self._value(param.bitwidth))

    def _table(self, entity: p4r.Entity) -> None:
        chance = self.chance
        info = chance.choice(list(self.p4info.tables))
        entry = entity.table_entry
        entry.table_id = info.preamble.id
        ids = [ref.id for ref in info.action_refs]
        if chance.randrange(8) == 0:
            entry.is_default_action = True
        else:
            self._key(info, entry)
        if info.implementation_id and chance.randrange(4):
            if chance.randrange(2):
                entry.action.action_profile_group_id = chance.randint(1, 3)
            else:
                rows = entry.action.action_profile_action_set.action_profile_actions
                for _ in range(chance.randint(1, 3)):
                    self._action(rows.add(weight=chance.choice((1, 2, 9, 2**31 - 1))).action, ids)
        else:
            self._action(entry.action.action, ids)

    def _key(self, info: p4i.Table, entry: p4r.TableEntry) -> None:
        kinds = p4i.MatchField
        for match in info.match_fields:
            field = entry.match.add(field_id=match.id)
            value, bits = self._value(match.bitwidth), match.bitwidth
            match match.match_type:
                case kinds.LPM:
                    field.lpm.value = value
                    field.lpm.prefix_len = self.chance.randint(1, max(1, bits))
                case kinds.TERNARY:
                    field.ternary.value = field.ternary.mask = value
                case kinds.RANGE:
                    field.range.low, field.range.high = b"\0", value
                case kinds.OPTIONAL:
                    field.optional.value = value
                case _:
                    field.exact.value = value
            if match.match_type in (kinds.TERNARY, kinds.RANGE, kinds.OPTIONAL):
                entry.priority = 1 + self.chance.randrange(5)

    def _profile(self) -> p4i.ActionProfile:
        return self.chance.choice(list(self.p4info.action_profiles))

    def _actions_of(self, profile: p4i.ActionProfile) -> list[int]:
        users = [t for t in self.p4info.tables if t.preamble.id in profile.table_ids]
        return [ref.id for table in users for ref in table.action_refs]

    def _member(self, entity: p4r.Entity) -> None:
        profile = self._profile()
        entity.action_profile_member.action_profile_id = profile.preamble.id
        entity.action_profile_member.member_id = self.chance.randint(1, 4)
        self._action(entity.action_profile_member.action, self._actions_of(profile))

    def _group(self, entity: p4r.Entity) -> None:
        group = entity.action_profile_group
        group.action_profile_id = self._profile().preamble.id
        group.group_id = self.chance.randint(1, 3)
        group.max_size = self.chance.choice((0, 0, 4, 2**31 - 1))
        for number in self.chance.sample(range(1, 5), self.chance.randint(0, 3)):
            weight = self.chance.choice((1, 2, 30, 2**31 - 1))
            group.members.add(member_id=number, weight=weight, watch_port=self._value(9))

    def _counter(self, entity: p4r.Entity) -> None:
        entity.counter_entry.counter_id = self.chance.choice(list(self.p4info.counters)).preamble.id
        entity.counter_entry.index.index = self.chance.choice((0, 1, 63, 2**31))
        entity.counter_entry.data.packet_count = self.chance.choice((0, 5, 2**63 - 1, -1))

    def _meter(self, entity: p4r.Entity) -> None:
        entity.meter_entry.meter_id = self.chance.choice(list(self.p4info.meters)).preamble.id
        entity.meter_entry.index.index = self.chance.choice((0, 1, 63))
        entity.meter_entry.config.cir = self.chance.choice((0, 1000, 2**63 - 1))
        entity.meter_entry.config.pir = self.chance.choice((0, 1000, 2**63 - 1))

    def _register(self, entity: p4r.Entity) -> None:
        register = self.chance.choice(list(self.p4info.registers))
        entity.register_entry.register_id = register.preamble.id
        entity.register_entry.index.index = self.chance.choice((0, 1, 2**31))
        entity.register_entry.data.bitstring = self._value(32)

    def _digest(self, entity: p4r.Entity) -> None:
        entity.digest_entry.digest_id = self.chance.choice(list(self.p4info.digests)).preamble.id
        entity.digest_entry.config.max_list_size = self.chance.choice((0, 1, 2**31 - 1))
        entity.digest_entry.config.max_timeout_ns = self.chance.choice((0, 10**6, 2**63 - 1))

    def _value_set(self, entity: p4r.Entity) -> None:
        info = self.chance.choice(list(self.p4info.value_sets))
        entity.value_set_entry.value_set_id = info.preamble.id
        member = entity.value_set_entry.members.add()
        for match in info.match:
            member.match.add(field_id=match.id).exact.value = self._value(match.bitwidth)

    def _pre(self, entity: p4r.Entity) -> None:
        chance, pre = self.chance, entity.packet_replication_engine_entry
        if chance.randrange(2):
            target: Any = pre.multicast_group_entry
            target.multicast_group_id = chance.choice((1, 2, 0, 2**31))
        else:
            target = pre.clone_session_entry
            target.session_id = chance.choice((1, 2, 0, 2**31))
            target.packet_length_bytes = chance.choice((0, 64, -1))
        for _ in range(chance.randrange(3)):
            target.replicas.add(egress_port=chance.choice((1, 2, 511, 2**31)), instance=1)


class RequestFuzzer(Fuzzer):
    """A client's calls, as messages and as bytes: statuses that P4Runtime has, and no log."""

    def __init__(self, *, sanitize: bool = False) -> None:
        super().__init__(sanitize=sanitize)
        self.pipelines = [_golden("features"), _golden("l3")]
        self.core = SwitchCore(CoreConfig(cpu_port=CPU_PORT))
        self.now_ps = 0
        self.device = Device(self.core, clock=lambda: self.now_ps)
        self.service = P4RuntimeService(
            self.device, DEVICE_ID, packet_out=self._packet_out, make_draft=self._draft
        )
        self.server = P4RuntimeServer(self.service, "127.0.0.1:0")
        self.server.start()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.server.port}")
        self.log = _Log()
        for name in ("softswitch", "grpc"):
            logging.getLogger(name).addHandler(self.log)

    def _draft(self) -> Device:
        return Device(SwitchCore(CoreConfig(cpu_port=CPU_PORT)), clock=lambda: 0)

    def _packet_out(self, data: bytes) -> None:
        self.core.inject(CPU_PORT, data, self.now_ps)
        self.now_ps += MS
        self.core.advance(self.now_ps)
        self.core.take_output(self.now_ps)

    def run(self, chance: random.Random) -> None:
        pipeline = chance.choice(self.pipelines)
        self.device.load(pipeline)
        self.service._config = p4r.ForwardingPipelineConfig(
            p4info=pipeline.p4info, p4_device_config=pipeline.device_config
        )
        draw = RequestDraw(pipeline.p4info, chance)
        for _ in range(25):
            self._one(draw, pipeline, chance)
        if self.log.lines:
            said, self.log.lines = self.log.lines, []
            raise Fault("the log says: " + "\n".join(said))
        self._call("Capabilities", p4r.CapabilitiesRequest().SerializeToString())

    def _one(self, draw: RequestDraw, pipeline: Pipeline, chance: random.Random) -> None:
        name, request = self._request(draw, pipeline, chance)
        if chance.randrange(3) == 0:
            mutate(request, chance, [pipeline.p4info])
        data = request.SerializeToString()
        if chance.randrange(8) == 0:
            data = mutate_bytes(data, chance)
        self._call(name, data)

    def _request(
        self, draw: RequestDraw, pipeline: Pipeline, chance: random.Random
    ) -> tuple[str, Message]:
        match chance.randrange(16):
            case 0 | 1 | 2:
                read = p4r.ReadRequest(device_id=DEVICE_ID)
                for _ in range(chance.randint(1, 3)):
                    read.entities.append(draw.entity())
                return "Read", read
            case 3:
                config = p4r.SetForwardingPipelineConfigRequest(
                    device_id=DEVICE_ID, action=chance.choice((1, 2, 3, 4, 5, 0, 99))
                )
                config.config.p4info.CopyFrom(pipeline.p4info)
                config.config.p4_device_config = pipeline.device_config
                return "SetForwardingPipelineConfig", config
            case 4:
                kind = chance.choice((0, 1, 2, 3, 99))
                return "GetForwardingPipelineConfig", p4r.GetForwardingPipelineConfigRequest(
                    device_id=DEVICE_ID, response_type=kind
                )
            case 5 | 6:
                return "StreamChannel", self._stream_message(chance)
        write = p4r.WriteRequest(device_id=DEVICE_ID, atomicity=chance.choice((0, 0, 1, 2, 9)))
        for _ in range(chance.choice((0, 1, 2, 5, 40))):
            write.updates.append(draw.update())
        return "Write", write

    def _stream_message(self, chance: random.Random) -> p4r.StreamMessageRequest:
        message = p4r.StreamMessageRequest()
        match chance.randrange(3):
            case 0:
                message.arbitration.device_id = DEVICE_ID
                message.arbitration.role.name = chance.choice(("", "", "a"))
                message.arbitration.role.config.type_url = chance.choice(("", "x/y"))
            case 1:
                message.packet.payload = chance.randbytes(chance.randrange(80))
                message.packet.metadata.add(metadata_id=1, value=chance.randbytes(2))
            case 2:
                message.digest_ack.digest_id = chance.choice((0, 1, 2**31))
        return message

    def _call(self, name: str, data: bytes) -> None:
        path = f"/{SERVICE}/{name}"
        try:
            if name == "StreamChannel":
                list(self.channel.stream_stream(path)(iter([data]), timeout=CALL_S))
            elif name == "Read":
                list(self.channel.unary_stream(path)(data, timeout=CALL_S))
            else:
                self.channel.unary_unary(path)(data, timeout=CALL_S)
        except grpc.RpcError as error:
            _check_refusal(name, error)

    def close(self) -> None:
        for name in ("softswitch", "grpc"):
            logging.getLogger(name).removeHandler(self.log)
        self.channel.close()
        self.server.stop(0)
        self.core.close()
        super().close()


def _check_refusal(name: str, error: Any) -> None:
    """Raise Fault where a refused call has not the form that P4Runtime gives it."""
    code = Code(error.code().value[0])
    trailer = dict(error.trailing_metadata()).get("grpc-status-details-bin")
    if code is Code.UNKNOWN and trailer is not None:
        for detail in rpc_status.Status.FromString(trailer).details:
            one = p4r.Error()
            if not detail.Unpack(one):
                raise Fault(f"{name}: a detail is no p4.v1.Error")
            check_codes([Code(one.canonical_code)])
        return
    if code in (Code.UNKNOWN, Code.INTERNAL, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE):
        raise Fault(f"{name}: {code.name}: {error.details()}")
    if not error.details():
        raise Fault(f"{name}: {code.name} without a word")


class _Log(logging.Handler):
    """Keeps errors, which are failures inside of the switch."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


# --- packets --------------------------------------------------------------------------------------


class PacketFuzzer(Fuzzer):
    """Recorded packets, broken, into switches that have their recording's entries."""

    def __init__(self, *, sanitize: bool = False) -> None:
        super().__init__(sanitize=sanitize)
        self.module = native(sanitize=sanitize)
        self.pipelines: list[tuple[Pipeline, list[bytes], Any]] = []
        for name in vectors.PROGRAMS:
            plain = _golden(name)
            library = build_pipeline(plain.program, cache_dir=self.cache, sanitize=sanitize)
            own = Pipeline(plain.p4info, plain.device_config, plain.program, plain.schema, library)
            self.pipelines.append((own, _frames(name), vectors.recording(name)["setup"]))

    def run(self, chance: random.Random) -> None:
        pipeline, frames, setup = chance.choice(self.pipelines)
        config = CoreConfig(
            cpu_port=CPU_PORT,
            seed=chance.randrange(1, 1000),
            priorities=chance.choice((1, 8)),
            recirculate_packets=chance.choice((1, 8, 1024)),
        )
        with Switch(config, module=self.module) as switch:
            switch.load(pipeline)
            entities = vectors.NamedUpdates(switch.names)
            switch.try_write([entities.update(update) for update in setup if chance.randrange(8)])
            draw = RequestDraw(pipeline.p4info, chance)
            for _ in range(60):
                self._step(switch, frames, draw, chance)

    def _step(
        self, switch: Switch, frames: list[bytes], draw: RequestDraw, chance: random.Random
    ) -> None:
        frame = chance.choice(frames)
        if chance.randrange(4):
            frame = mutate_bytes(frame, chance)
        if chance.randrange(20) == 0:
            frame = (frame + chance.randbytes(64)) * chance.choice((1, 20, 200))
        port = chance.choice((1, 2, 3, 4, CPU_PORT, 0, 511))
        with contextlib.suppress(CoreError):  # a port that there is not, a frame that is too long
            switch.core.inject(port, frame[:20000], switch.now_ns * 1000)
        match chance.randrange(12):
            case 0:
                state = chance.choice(list(PortState))
                switch.set_port(chance.choice((1, 2, 3)), state)
            case 1:
                check_codes([status.code for status in switch.try_write([draw.update()])])
        switch.run_until(switch.now_ns + chance.choice((0, 1, 1000, 10**6)))
        switch.packet_ins.clear()
        switch.digests.clear()


FUZZERS: dict[str, type[Fuzzer]] = {
    "json": JsonFuzzer,
    "p4info": P4InfoFuzzer,
    "packets": PacketFuzzer,
    "requests": RequestFuzzer,
}
SANITIZED = frozenset({"packets"})
"""Those whose C code is built with ASan and UBSan."""
