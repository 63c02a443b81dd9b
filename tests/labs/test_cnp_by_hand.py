"""The lab cnp-by-hand: its reference gets all marks, and each mistake loses those that it is about.

learner's P4 -> compiler -> switch in virtual time <- random packets; what comes out is judged
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from compiler import CompileResult, compile_p4
from experiments import grade, grade_worker
from experiments.grade import Graded, Submission, judged

FOLDER = Path(__file__).parents[2] / "labs" / "cnp-by-hand"
NOTIFICATION = Path(__file__).parents[2] / "p4src" / "include" / "notification.p4"
GRADING = grade_worker.load(FOLDER)
REFERENCE = grade.reference(FOLDER)
STARTER = (FOLDER / grade.STARTER).read_text()
FULL = {item.name: item.marks for item in GRADING.items()}


@pytest.fixture
def compiled(tmp_path: Path) -> Any:
    def compiled(text: str) -> CompileResult:
        path = tmp_path / "program.p4"
        path.write_text(text)
        return compile_p4(path)

    return compiled


def judge(json_text: str, p4info_text: str, seed: int) -> dict[str, Graded]:
    bench = GRADING.bench(Submission(Path("program.p4"), json_text, p4info_text, seed))
    return {item.name: judged(item, item.judge(bench)) for item in GRADING.items()}


@pytest.fixture
def graded(compiled: Any) -> Any:
    def graded(text: str, seed: int = 1) -> dict[str, Graded]:
        result = compiled(text)
        return judge(result.json_text, result.p4info_text, seed)

    return graded


def earned(items: Mapping[str, Graded]) -> dict[str, int]:
    return {name: item.earned for name, item in items.items()}


def changed(*changes: tuple[str, str], text: str = REFERENCE) -> str:
    """Return the reference with other code in some places; each place is there exactly once."""
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


# ---------------------------------------------------------------- the lab's own files


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_reference_gets_all_marks_whatever_the_seed(graded: Any, seed: int) -> None:
    assert earned(graded(REFERENCE, seed)) == FULL


def test_the_starter_compiles_and_forwards_and_no_more(graded: Any) -> None:
    items = graded(STARTER)
    assert earned(items) == {**dict.fromkeys(FULL, 0), "routes": FULL["routes"]}
    assert "no packet" in items["sends"].finding.reason


@pytest.mark.reference("patch")
def test_the_diff_is_one_that_patch_takes(tmp_path: Path) -> None:
    out = tmp_path / "reference.p4"
    files = [str(FOLDER / grade.STARTER), str(grade.solution_of(FOLDER))]
    subprocess.run(["patch", "--silent", "-o", str(out), *files], check=True)
    assert out.read_text() == REFERENCE


def notification_fields(text: str) -> list[tuple[str, str]]:
    """(type, name) of the fields of a P4 text's header notification_t."""
    body = re.search(r"header notification_t \{(.*?)\n\}", text, re.DOTALL)
    assert body is not None
    return re.findall(r"^ +(\S+) +(\w+);", body[1], re.MULTILINE)


def test_the_reserved_bytes_are_the_fabrics_notification() -> None:
    """The lab's file stands alone, so the header is in it again, and must be the same."""
    text = NOTIFICATION.read_text().replace("NotificationType type", "bit<4> type")
    fabric = notification_fields(text)
    assert len(fabric) == 10
    assert notification_fields(REFERENCE) == notification_fields(STARTER) == fabric


@pytest.mark.reference("p4c-bm2-ss")
def test_p4c_compiles_the_reference_without_a_warning_and_it_does_the_same(tmp_path: Path) -> None:
    source, out, info = (tmp_path / name for name in ("r.p4", "r.json", "r.txtpb"))
    source.write_text(REFERENCE)
    command = ["p4c-bm2-ss", "--Werror", "--std", "p4-16", "-o", str(out)]
    subprocess.run([*command, "--p4runtime-files", str(info), str(source)], check=True)
    assert earned(judge(out.read_text(), info.read_text(), 3)) == FULL


# ---------------------------------------------------------------- what learners get wrong

UNTOLD = {name for name in FULL if name != "routes"}
"""What there is to lose where no CNP reaches the source."""

AT_ONCE = "        } else if (hdr.bth.isValid() && hdr.bth.opcode != CNP_OPCODE) {\n"
SWAP = """        ipv4_addr_t source = hdr.ipv4.src;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = source;
"""
LITTLE = "crc[7:0] ++ crc[15:8] ++ crc[23:16] ++ crc[31:24]"
CLAIM = "        meta.due = std.egress_global_timestamp >= next;\n"

MISTAKES = {
    "more than the threshold, not from it on": (
        [("std.deq_qdepth >= threshold", "std.deq_qdepth > threshold")],
        {"threshold"},
        ("threshold", ">=, not >"),
    ),
    "the depth when it came": (
        [("std.deq_qdepth >= threshold", "std.enq_qdepth >= threshold")],
        {"threshold"},
        ("threshold", "deq_qdepth"),
    ),
    "everybody is told": (
        [("std.deq_qdepth >= threshold", "true")],
        {"threshold"},
        ("threshold", "notified without need"),
    ),
    "a threshold of the program's own": (
        [("std.deq_qdepth >= threshold", "std.deq_qdepth >= 30")],
        {"threshold"},
        ("threshold", "the parameter"),
    ),
    "a CNP for a CNP": (
        [(" && hdr.bth.opcode != CNP_OPCODE) {", ") {")],
        {"innocent"},
        ("innocent", "CNPs for a CNP"),
    ),
    "whether the queue pair is known or not": (
        [("source_qp.apply().hit", "(source_qp.apply().hit || true)")],
        {"innocent"},
        ("innocent", "unknown queue pair"),
    ),
    "all flows share one interval": (
        [("next_cnp.read(next, meta.flow)", "next_cnp.read(next, 0)"),
         ("next_cnp.write(meta.flow,", "next_cnp.write(0,")],
        {"interval"},
        ("interval", ": CNPs"),
    ),
    "no interval": (
        [(CLAIM, "        meta.due = true;\n")],
        {"interval"},
        ("interval", "shortest time"),
    ),
    "the clone does not recirculate": (
        [("            recirculate_preserving_field_list(1);\n", "")],
        UNTOLD,
        ("sends", "none recirculates"),
    ),
    "everything recirculates": (
        [("        if (std.instance_type == EGRESS_CLONE) {\n",
          "        recirculate_preserving_field_list(1);\n"
          "        if (std.instance_type == EGRESS_CLONE) {\n"),
         ("            recirculate_preserving_field_list(1);\n        } else", "        } else")],
        {*UNTOLD, "routes"},
        ("sends", "still go round"),
    ),
    "a clone of each clone": (
        [("            make_cnp.apply(hdr, meta);\n",
          "            clone_preserving_field_list(CloneType.E2E, CNP_SESSION, 1);\n"
          "            make_cnp.apply(hdr, meta);\n")],
        {"sends", "interval", "addresses", "notification"},
        ("sends", "still go round"),
    ),
    "the addresses stay": (
        [(SWAP, "")],
        {"interval", "addresses"},
        ("interval", "TODO 4"),
    ),
    "the original is rewritten, too": (
        [(AT_ONCE, AT_ONCE + "            hdr.bth.becn = 1;\n")],
        {"routes"},
        ("routes", "at byte 46"),
    ),
    "ECN stays": (
        [("        hdr.ipv4.ecn = 0;\n", "")],
        {"addresses"},
        ("addresses", "ECN"),
    ),
    "no new lengths": (
        [("        hdr.ipv4.length = CNP_IPV4_LENGTH;\n", ""),
         ("        hdr.udp.length = CNP_UDP_LENGTH;\n", "")],
        {"addresses"},
        ("addresses", "IPv4 length, UDP length"),
    ),
    "no field list": (
        [("@field_list(1) qp_t source_qp; ", "qp_t source_qp; ")],
        {"bth"},
        ("bth", "destination QP"),
    ),
    "the destination's queue pair": (
        [("        hdr.bth.destination_qp = meta.source_qp;\n", "")],
        {"bth"},
        ("bth", "destination QP"),
    ),
    "BTH's flags stay": (
        [("        hdr.bth.migrated = 0;\n", ""), ("        hdr.bth.reserved_6 = 0;\n", "")],
        {"bth"},
        ("bth", "solicited, migrated, reserved bits"),
    ),
    "the data stays behind it": (
        [("            truncate(CNP_FRAME_LENGTH);\n", "")],
        {"length"},
        ("length", "bytes of the frame"),
    ),
    "big-endian": (
        [(LITTLE, "crc")],
        {"icrc"},
        ("icrc", "turned round"),
    ),
    "no eight bytes of ones": (
        [("             { 64w0xffff_ffff_ffff_ffff,\n               hdr.ipv4.version,",
          "             { hdr.ipv4.version,")],
        {"icrc"},
        ("icrc", "eight bytes of ones"),
    ),
    "TTL not masked": (
        [("hdr.ipv4.fragment, 8w0xff, hdr", "hdr.ipv4.fragment, hdr.ipv4.ttl, hdr")],
        {"icrc"},
        ("icrc", "TTL is not masked"),
    ),
    "masked with zeros": (
        [("hdr.ipv4.protocol, 16w0xffff,", "hdr.ipv4.protocol, 16w0,")],
        {"icrc"},
        ("icrc", "masked with zeros"),
    ),
    "no notification": ([("        notify();\n", "")], {"notification"}, ("notification", "type")),
    "a notification of the wrong flow": (
        [("        notify();\n        turn_round();\n        to_source_qp();\n",
          "        turn_round();\n        to_source_qp();\n        notify();\n")],
        {"notification"},
        ("notification", "destination, destination_qp"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_costs_the_marks_that_it_is_about(graded: Any, name: str) -> None:
    changes, loses, (item, words) = MISTAKES[name]
    items = graded(changed(*changes), seed=11)
    missing = {each for each, marks in earned(items).items() if marks < FULL[each]}
    assert missing == loses
    assert all(items[each].finding.reason for each in missing)
    finding = items[item].finding
    rows = " ".join(row.what for row in finding.details if not row.right)
    assert words in f"{finding.reason} {finding.hint} {rows}"


def test_to_store_the_last_time_is_as_good_as_the_next(graded: Any) -> None:
    program = changed(
        (CLAIM, "        meta.due = std.egress_global_timestamp - next >= meta.interval;\n"),
        ("timestamp + meta.interval : next", "timestamp : next"),
    )
    assert earned(graded(program)) == FULL


def test_an_answer_for_one_seed_is_none_for_another(graded: Any) -> None:
    """The queue pair that one grading asks for, written into the program."""
    right = next(
        row for row in graded(changed(("meta.source_qp;", "0;")), 1)["bth"].finding.details
        if row.what == "destination QP"
    ).expected  # fmt: skip
    program = changed(("meta.source_qp;", f"{right};"))
    assert graded(program, 1)["bth"].earned < FULL["bth"]  # other flows have other queue pairs
    rows = graded(program, 2)["bth"].finding.details
    assert [row.what for row in rows if not row.right] == ["destination QP"]


def test_every_todo_of_the_starter_has_marks() -> None:
    todos = {f"TODO {number}" for number in range(1, 20) if f"TODO {number}" in STARTER}
    titles = [item.title for item in GRADING.items()]
    assert todos == {title.partition(":")[0] for title in titles if "TODO" in title}
