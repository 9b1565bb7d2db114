"""A run folder owned or writable by another user is not used."""

import errno
import os
import struct
from pathlib import Path

import pytest

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.run_folder import RunFolder


def test_a_run_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    folder = RunFolder.of(tmp_path, "shop", "c1")
    assert folder.problem() == ""
    folder.make()
    folder.make()
    assert (folder.problem(), folder.path.stat().st_mode & 0o777) == ("", 0o700)


def test_a_run_folder_that_cannot_be_made_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(
        Refused, match=f"the folder {file}/shop/c1 cannot be made: Not a directory; choose another base"
    ):
        RunFolder.of(file, "shop", "c1").make()


def test_a_run_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder.of(tmp_path, "shop", "c1")
    folder.make()
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(Refused, match=rf"\S+/shop(/c1)? belongs to the user with uid {own}, not to this one"):
        folder.begin()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_run_folder_in_a_cluster_folder_of_ones_own_is_looked_at_too(tmp_path: Path) -> None:
    folder = RunFolder.of(tmp_path, "shop", "c1")
    folder.make()
    os.chown(folder.path, 12345, -1)
    with pytest.raises(
        Refused, match=r"the run folder \S+/shop/c1 belongs to the user with uid 12345, not to this one"
    ):
        folder.make()
    os.chown(folder.path, os.geteuid(), -1)
    link = RunFolder.of(tmp_path, "shop", "c2")
    link.path.symlink_to(folder.path)
    os.chown(link.path, 12345, -1, follow_symlinks=False)
    assert "c2 belongs to the user with uid 12345" in link.problem()


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_run_folder_that_others_may_change_is_refused(tmp_path: Path, mode: int) -> None:
    folder = RunFolder.of(tmp_path, "shop", "c1")
    folder.make()
    folder.path.chmod(mode)
    with pytest.raises(Refused, match=rf"c1 may be changed by others \(mode {mode:o}\); run chmod 700 \S+/shop/c1"):
        folder.make()


def test_a_run_folder_that_cannot_be_looked_at_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "shop").touch()
    assert (
        "shop/c1 cannot be looked at: Not a directory; choose another" in RunFolder.of(tmp_path, "shop", "c1").problem()
    )


@pytest.mark.parametrize(("mode", "refused"), [(0o777, True), (0o757, True), (0o1777, False), (0o755, False)])
@pytest.mark.parametrize("by_link", [False, True], ids=["direct", "behind a link"])
def test_a_base_that_others_can_replace_is_refused(mode: int, refused: bool, by_link: bool, tmp_path: Path) -> None:
    above = tmp_path / "above"
    (above / "base").mkdir(parents=True)
    above.chmod(mode)
    (tmp_path / "link").symlink_to(above / "base")
    folder = RunFolder.of(tmp_path / "link" if by_link else above / "base", "shop", "c1")
    if not refused:
        folder.make()
        return
    with pytest.raises(
        Refused, match=rf"could be replaced by others: \S+/above may be written by others \(mode {mode:04o}"
    ):
        folder.make()


NO_NUMBER = 0xFFFFFFFF
OWN, USER, OWN_GROUP, GROUP, MASK, OTHERS = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20


@pytest.mark.parametrize(
    ("tag", "number", "rights", "mask", "said"),
    [
        (USER, 12346, 7, 7, "the user with uid 12346"),
        (GROUP, 12346, 7, 7, "the group with gid 12346"),
        (USER, 12346, 7, 5, ""),
        (USER, 12346, 5, 7, ""),
        (USER, os.geteuid(), 7, 7, ""),
        (GROUP, 0, 7, 7, ""),
    ],
)
def test_a_base_is_refused_whose_access_list_lets_others_write(
    tag: int, number: int, rights: int, mask: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mode of such a folder shows the mask in place of the group's rights, so a folder of root's group looked safe."""
    base = tmp_path / "base"
    base.mkdir()
    entries = [(OWN, 7, NO_NUMBER), (tag, rights, number), (OWN_GROUP, 5, NO_NUMBER), (MASK, mask, NO_NUMBER)]
    raw = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in [*entries, (OTHERS, 5, NO_NUMBER)])
    monkeypatch.setattr(os, "getxattr", lambda path, name: _access_list(raw if Path(path) == base else b"", name))
    folder = RunFolder.of(base, "shop", "c1")
    if not said:
        folder.make()
        return
    with pytest.raises(Refused, match=rf"\S+/base may be written by {said} \(its access list, see getfacl; no sticky"):
        folder.make()


def _access_list(raw: bytes, name: str) -> bytes:
    assert name == "system.posix_acl_access"
    if not raw:
        raise OSError(errno.ENODATA, "No data available")
    return raw


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_base_or_a_link_to_it_of_another_user_is_refused(tmp_path: Path) -> None:
    base, link = tmp_path / "base", tmp_path / "link"
    base.mkdir()
    link.symlink_to(base)
    os.chown(link, 12345, -1, follow_symlinks=False)
    assert "link belongs to the user with uid 12345" in RunFolder.of(link, "shop", "c1").problem()
    base.chmod(0o775)
    os.chown(base, -1, 12345)
    assert "base may be written by others (mode 0775" in RunFolder.of(base, "shop", "c1").problem()
