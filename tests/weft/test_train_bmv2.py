"""`weft train` on p4lang's own switch: what BMv2 adds is what our switch and the ring add.

         s1              adds for four ranks: BMv2, our switch; or it only forwards
     /  |    |  \\
    h1  h2  h3  h4
"""

from __future__ import annotations

import pytest

from tests.weft.test_train_live import environment, train

__all__ = ["environment"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.reference(
        "simple_switch_grpc", module="torch", names="make setup-torch installs PyTorch"
    ),
]


def test_bmv2_adds_what_our_switch_and_the_ring_add(environment: dict[str, str]) -> None:
    on_bmv2 = ("training-leaf", "--target", "bmv2")
    found = train(environment, *on_bmv2)
    assert found["runtime"] == "bmv2"
    calls = [each["calls"] for each in found["ranks"]]
    assert all(each["by_tree"] > 0 == each["by_ring"] for each in calls)
    assert all(each["tree"]["blocks taken"] > 0 for each in calls)
    ours = train(environment, "training-leaf")
    assert (ours["runtime"], ours["sha256"]) == ("softswitch", found["sha256"])
    ring = train(environment, *on_bmv2, "--transport", "ring")
    assert {each["calls"]["by_tree"] for each in ring["ranks"]} == {0}
    assert ring["sha256"] == found["sha256"]
