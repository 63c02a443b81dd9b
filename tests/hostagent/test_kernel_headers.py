"""Merging Debian's two halves of kernel headers, and pointing bcc at the result."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostagent import kernel_headers
from hostagent.kernel_headers import KernelHeadersError, installed_packages, merge


def header_version(sources: Path, version: str, flavour: str = "amd64") -> None:
    """Lay out the two halves of one version as Debian does, in small."""
    common = sources / f"linux-headers-{version}-common"
    own = sources / f"linux-headers-{version}-{flavour}"
    files = {
        common / "include/linux/kconfig.h": "common",
        common / "include/linux/deep/only.h": "common",
        common / "include/both/one.h": "common",
        common / "include/both/two.h": "common",
        common / "arch/x86/include/asm/io.h": "common",
        own / "include/generated/autoconf.h": "own",
        own / "include/both/one.h": "own",
        own / "arch/x86/include/generated/asm/unistd.h": "own",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_both_halves_are_in_the_tree_and_the_flavour_wins(tmp_path: Path) -> None:
    header_version(tmp_path, "6.1.0-9")
    tree = tmp_path / "tree"
    links = merge(installed_packages(tmp_path)[-1], tree)

    def text(name: str) -> str:
        return (tree / name).read_text()

    assert text("include/linux/kconfig.h") == "common"
    assert text("include/linux/deep/only.h") == "common"
    assert text("include/generated/autoconf.h") == "own"
    assert text("include/both/one.h") == "own"
    assert text("include/both/two.h") == "common"
    assert text("arch/x86/include/asm/io.h") == "common"
    assert text("arch/x86/include/generated/asm/unistd.h") == "own"
    # A folder that one half has is one link: linux, generated, both/one, both/two, asm, generated.
    assert links == 6
    assert (tree / "include/linux").is_symlink()


def test_merging_again_replaces_the_tree(tmp_path: Path) -> None:
    header_version(tmp_path, "6.1.0-9")
    tree = tmp_path / "tree"
    (tree / "include").mkdir(parents=True)
    (tree / "include/stale.h").write_text("old")
    merge(installed_packages(tmp_path)[-1], tree)
    assert not (tree / "include/stale.h").exists()
    assert sorted(path.name for path in tmp_path.glob("tree*")) == ["tree"]


def test_a_tree_that_is_right_is_left_alone(tmp_path: Path) -> None:
    """A set-up must not take the headers from under a compiler that is reading them."""
    header_version(tmp_path, "6.1.0-9")
    tree = tmp_path / "tree"
    packages = installed_packages(tmp_path)[-1]
    links = merge(packages, tree)
    before = tree.stat().st_ino
    assert merge(packages, tree) == links
    assert tree.stat().st_ino == before
    assert sorted(path.name for path in tmp_path.glob("tree*")) == ["tree"]
    (tree / "include/linux").unlink()  # one that is not is made anew
    merge(packages, tree)
    assert (tree / "include/linux/kconfig.h").is_file()


def test_the_newest_complete_version_is_last(tmp_path: Path) -> None:
    header_version(tmp_path, "6.1.0-9")
    header_version(tmp_path, "6.1.0-56", "cloud-amd64")
    (tmp_path / "linux-headers-6.12.0-1-common").mkdir()  # its other half was never installed
    assert [packages.flavour.name for packages in installed_packages(tmp_path)] == [
        "linux-headers-6.1.0-9-amd64",
        "linux-headers-6.1.0-56-cloud-amd64",
    ]


def test_no_headers_is_an_error_that_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_headers, "running_kernel_has_headers", lambda: False)
    with pytest.raises(KernelHeadersError, match="install linux-headers-amd64"):
        kernel_headers.prepare(tmp_path / "tree", tmp_path)


@pytest.mark.parametrize(
    ("own_headers", "merged", "user_choice", "expected"),
    [
        (True, True, None, None),
        (False, False, None, None),
        (False, True, None, "merged"),
        (True, True, "/users/own", "/users/own"),
    ],
)
def test_bcc_is_pointed_at_a_tree_only_where_it_needs_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own_headers: bool,
    merged: bool,
    user_choice: str | None,
    expected: str | None,
) -> None:
    monkeypatch.setattr(kernel_headers, "running_kernel_has_headers", lambda: own_headers)
    monkeypatch.setattr(kernel_headers, "MERGED_TREE", tmp_path / "merged")
    if merged:
        header = tmp_path / "merged/include/linux/kconfig.h"
        header.parent.mkdir(parents=True)
        header.touch()
    if user_choice:
        monkeypatch.setenv("BCC_KERNEL_SOURCE", user_choice)
    else:
        monkeypatch.delenv("BCC_KERNEL_SOURCE", raising=False)
    environment: dict[str, str] = {}
    tree = kernel_headers.export(environment)
    wanted = str(tmp_path / expected) if expected else None
    assert (str(tree) if tree else None) == wanted
    assert environment.get("BCC_KERNEL_SOURCE") == wanted
