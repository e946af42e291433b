from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from gpuprov.store import Cache, default_folder
from tests.store.hosts import md5, sha256, some_bytes, step_for

CONTENT = some_bytes(100_000)
URL = "https://example.org/files/cuda%20a.run?x=y"


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "given"
    path.write_bytes(CONTENT)
    return path


def test_what_was_added_is_found_by_what_it_is(cache: Cache, file: Path) -> None:
    assert cache.add(file) == sha256(CONTENT)
    file.unlink()
    found = cache.find(step_for("/x", CONTENT))
    assert found == cache.folder / "sha256" / sha256(CONTENT)[:2] / sha256(CONTENT)
    assert found.read_bytes() == CONTENT
    # By another cache object too, with the index lost.
    (cache.folder / "index.json").unlink()
    assert Cache(cache.folder).find(step_for("/x", CONTENT)) == found
    assert cache.find(step_for("/x", CONTENT, sha256="", md5=md5(CONTENT))) == found
    assert cache.find(step_for("/x", b"other")) is None
    assert cache.find(step_for("/x", CONTENT, size=1)) is None


def test_adding_twice_and_beside_one_another_keeps_one(cache: Cache, file: Path) -> None:
    threads = [threading.Thread(target=cache.add, args=(file,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(path.name for path in cache.folder.rglob("*") if path.is_file()) == sorted(
        [sha256(CONTENT), "index.json"]
    )
    assert cache.find(step_for("/x", CONTENT)) is not None


@pytest.mark.parametrize("name", ["host name.run", "cuda a.run"])
@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_a_file_put_there_by_hand_is_found_by_name_and_verified(cache: Cache, name: str, kind: str) -> None:
    cache.folder.mkdir()
    (cache.folder / name).write_bytes(CONTENT)
    more = {} if kind == "sha256" else {"sha256": "", "md5": md5(CONTENT)}
    step = step_for("/srv/host name.run", CONTENT, URL, **more)
    assert cache.find(step) == cache.folder / name


@pytest.mark.parametrize(("wrong", "words"), [(b"x" * 100_000, "it has sha256"), (b"short", "it has 5 bytes")])
def test_a_wrong_file_is_named_and_not_used(cache: Cache, wrong: bytes, words: str) -> None:
    cache.folder.mkdir()
    path = cache.folder / "cuda a.run"
    path.write_bytes(wrong)
    said: list[str] = []
    assert cache.find(step_for("/x", CONTENT, URL), say=said.append) is None
    assert len(said) == 1
    assert said[0].startswith(f"{path} is not the file that is wanted, and is not used: {words}")


def test_an_entry_that_rotted_is_named_and_the_next_one_used(cache: Cache, file: Path) -> None:
    cache.add(file)
    entry = cache.find(step_for("/x", CONTENT))
    assert entry is not None
    entry.write_bytes(b"y" * len(CONTENT))
    said: list[str] = []
    assert cache.find(step_for("/x", CONTENT), say=said.append) is None
    assert str(entry) in said[0]
    (cache.folder / "x").write_bytes(CONTENT)
    assert cache.find(step_for("/x", CONTENT)) == cache.folder / "x"


def test_an_unchanged_file_is_read_once(cache: Cache, file: Path) -> None:
    cache.add(file)
    step = step_for("/x", CONTENT)
    entry = cache.find(step)
    assert entry is not None
    read = _reads(entry, lambda: cache.find(step))
    assert read == 0
    os.utime(entry)
    assert _reads(entry, lambda: cache.find(step)) == 1
    assert _reads(entry, lambda: cache.find(step)) == 0


def _reads(path: Path, act: Callable[[], object]) -> int:
    opened = []
    real = Path.open

    def spy(self: Path, mode: str = "r") -> IO[Any]:
        if self == path:
            opened.append(self)
        return real(self, mode)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", spy)
        act()
    return len(opened)


@pytest.mark.parametrize("index", [b"", b"\xff", b"[1]", b'{"a": 1}', b"[" * 100_000, b'{"x": {"stamp": []}}'])
def test_a_broken_index_costs_only_reading_again(cache: Cache, file: Path, index: bytes) -> None:
    cache.add(file)
    (cache.folder / "index.json").write_bytes(index)
    assert cache.find(step_for("/x", CONTENT)) is not None


def test_what_cannot_be_read_is_named(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.folder.mkdir()
    (cache.folder / "x").write_bytes(CONTENT)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    said: list[str] = []
    assert cache.find(step_for("/x", CONTENT), say=said.append) is None
    assert said == [f"{cache.folder / 'x'} cannot be read, and is not used: Permission denied"]


@pytest.mark.parametrize("name", ["..", ".", "", "index.json"])
def test_no_name_leads_elsewhere(cache: Cache, file: Path, name: str) -> None:
    cache.add(file)
    assert cache.find(step_for(f"/a/{name}", b"wanted", f"https://example.org/..%2f{name}")) is None


def test_adding_what_is_not_there_leaves_nothing(cache: Cache, tmp_path: Path) -> None:
    with pytest.raises(OSError):
        cache.add(tmp_path / "missing")
    assert list(cache.folder.iterdir()) == []


def test_an_empty_cache_has_nothing(cache: Cache) -> None:
    assert cache.find(step_for("/x", CONTENT, URL)) is None
    assert not cache.folder.exists()


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUPROV_CACHE", str(tmp_path / "mine"))
    assert default_folder() == tmp_path / "mine"
    monkeypatch.delenv("GPUPROV_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "gpuprov" / "artifacts"
    assert Cache().folder == default_folder()
