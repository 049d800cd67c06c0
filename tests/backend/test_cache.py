"""The disk cache: entries are whole or missing, whatever processes and disks do."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tegula as tg
from tegula.backend import tools
from tegula.backend.cache import HEADER, Cache, Entry, directory

ENTRY = Entry({"scratch": 128, "sites": [["a", 1]]}, bytes(range(256)) * 20)


@pytest.fixture
def store(tmp_path):
    return Cache(tmp_path / "deep" / "cache")


def test_a_stored_cache_entry_is_found(store):
    assert store.get("a") is None
    store.put("a", ENTRY)
    assert store.get("a") == ENTRY
    store.put("a", Entry({}, b""))
    assert store.get("a") == Entry({}, b"")
    assert [p.name for p in Path(store.path).iterdir()] == ["a"]


def test_only_the_user_may_read_the_cache_directory(store):
    store.put("a", ENTRY)
    assert Path(store.path).stat().st_mode & 0o777 == 0o700


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(cut=st.integers(0, 5000))
def test_a_truncated_cache_entry_is_a_miss(store, cut):
    store.put("a", ENTRY)
    path = Path(store.path) / "a"
    data = path.read_bytes()
    path.write_bytes(data[: cut % len(data)])
    assert store.get("a") is None
    store.put("a", ENTRY)
    assert store.get("a") == ENTRY


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_changed_bit_of_a_cache_entry_is_a_miss(store, position, bit):
    store.put("a", ENTRY)
    path = Path(store.path) / "a"
    data = bytearray(path.read_bytes())
    data[position % len(data)] ^= 1 << bit
    path.write_bytes(data)
    assert store.get("a") is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=8)
@given(
    names=st.lists(st.text("abc0", min_size=1, max_size=4), min_size=2, max_size=5, unique=True),
    seed=st.randoms(),
)
def test_a_cache_entry_under_another_name_is_a_miss(store, names, seed):
    """If cache files are copied over each other, a name gives its own entry or none."""
    for k, name in enumerate(names):
        store.put(name, Entry({"k": k}, bytes([k])))
    contents = {name: (Path(store.path) / name).read_bytes() for name in names}
    for name in names:
        source = seed.choice(names)
        (Path(store.path) / name).write_bytes(contents[source])
        actual = store.get(name)
        assert actual is None if source != name else actual.metadata["k"] == names.index(name)


@pytest.mark.machine_code
def test_kernels_with_exchanged_cache_entries_are_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setattr(tg.config, "kernel_cache_dir", str(tmp_path / "exchanged"))
    entries, kernels = [], {}
    for number in (1.0, 2.0):
        names = {"tg": tg}
        text = f"def k(out: tg.array1d[float]):\n    out[0] = {number}\n"
        exec(text, names)
        kernels[number] = tg.kernel(source=text)(names["k"])
        tg.launch(kernels[number], 1, outputs=[tg.zeros(1)])
        entries.append({*map(Path, Cache(tmp_path / "exchanged").entries())})
    (second,) = entries[1] - entries[0]
    for first in entries[0]:
        contents = second.read_bytes()
        second.write_bytes(first.read_bytes())
        for number, kernel in kernels.items():
            kernel.unload()
            out = tg.zeros(1)
            tg.launch(kernel, 1, outputs=[out])
            assert out.numpy()[0] == number
            assert kernel.compiled[0].from_cache == (number == 1.0)
        assert second.read_bytes() == contents


def test_the_cache_ignores_foreign_files_in_its_directory(store):
    Path(store.path).mkdir(parents=True)
    (Path(store.path) / "folder").mkdir()
    (Path(store.path) / "text").write_text("x" * (HEADER.size + 10))
    (Path(store.path) / "empty").write_bytes(b"")
    assert [store.get(n) for n in ("folder", "text", "empty")] == [None] * 3
    store.put("folder", ENTRY)
    assert store.get("folder") is None
    assert not [p for p in Path(store.path).iterdir() if p.name.startswith(".new-")]


def test_a_cache_directory_that_cannot_be_created_stores_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    store = Cache(tmp_path / "file" / "cache")
    store.put("a", ENTRY)
    assert store.get("a") is None


def test_cache_metadata_that_is_not_json_is_refused(store):
    with pytest.raises(TypeError):
        store.put("a", Entry({"x": object()}, b""))


def test_readers_never_see_a_partial_cache_entry(store):
    """One process writes entries of different sizes under one name while another reads the name."""
    store.put("a", Entry({"n": 0}, b""))
    text = f"""
import tegula as tg
from tegula.backend import tools
from tegula.backend.cache import Cache, Entry
store = Cache({store.path!r})
for n in range(400):
    store.put("a", Entry({{"n": n}}, bytes([n % 256]) * (n * 997 % 50_000)))
"""
    writers = [subprocess.Popen([sys.executable, "-c", text]) for _ in range(2)]
    reads = 0
    while any(w.poll() is None for w in writers):
        entry = store.get("a")
        assert entry is not None
        n = entry.metadata["n"]
        assert entry.code == bytes([n % 256]) * (n * 997 % 50_000)
        reads += 1
    assert reads > 10 and [w.returncode for w in writers] == [0, 0]
    assert [p.name for p in Path(store.path).iterdir()] == ["a"]


def test_threads_may_write_one_cache_entry_at_once(store):
    threads = [threading.Thread(target=lambda: [store.put("a", ENTRY) for _ in range(50)]) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert store.get("a") == ENTRY
    assert [p.name for p in Path(store.path).iterdir()] == ["a"]


def test_trimming_the_cache_removes_the_least_recently_used_entries(store):
    now = time.time()
    for k in range(6):
        store.put(f"entry{k}", ENTRY)
        os.utime(Path(store.path) / f"entry{k}", (now, now - 10_000 * (10 - k)))
    assert store.get("entry0") == ENTRY
    size = (Path(store.path) / "entry0").stat().st_size
    store.trim(3 * size)
    assert sorted(os.path.basename(p) for p in store.entries()) == ["entry0", "entry4", "entry5"]
    assert store.size() == 3 * size


def test_trimming_the_cache_removes_unfinished_files(store):
    store.put("a", ENTRY)
    old, young = Path(store.path) / ".new-1-old", Path(store.path) / ".new-1-young"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    store.trim()
    assert not old.exists() and young.exists()
    assert store.get("a") == ENTRY


def test_clear_removes_all_entries_of_the_cache(store):
    for k in range(3):
        store.put(str(k), ENTRY)
    assert store.clear() == 3
    assert (store.size(), store.get("1")) == (0, None)


def test_cache_keys_depend_on_the_boundaries_of_their_parts(store):
    key = store.key
    keys = [key(p) for p in ([], [""], ["", ""], ["ab"], ["a", "b"], ["b", "a"], ["a", "", "b"])]
    assert len(set(keys)) == len(keys)
    assert key(["a", "b"]) == key(["a", "b"])


def test_the_cache_directory_follows_the_environment(monkeypatch, tmp_path):
    assert directory("/somewhere") == "/somewhere"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert directory() == str(tmp_path / "tegula")
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert directory() == str(tmp_path / ".cache" / "tegula")


def test_a_launch_from_a_full_cache_loads_no_llvm(tmp_path):
    """The thread pool's own code is in the cache as well."""
    text = """
import sys
from tegula.backend import pool
pool.WorkerPool(2)
print("llvmlite" in sys.modules)
"""
    env = os.environ | {"TEGULA_CACHE_DIR": str(tmp_path)}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", text], env=env, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert outputs == ["True\n", "False\n"]


def tree(path):
    (path / "part").mkdir(parents=True)
    for name in ("a.py", "part/b.py", "part/c.txt"):
        (path / name).write_text(f"the text of {name}")
    return path


def digests(tmp_path, root):
    """The digests of two processes, one without a memo and one with the memo of the first."""
    return [tools._stored_digest(str(tmp_path / "memos"), str(root)) for _ in range(2)]


def test_the_digest_of_sources_depends_on_their_contents_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "STABLE_NS", 0)
    first_tree, second_tree = tree(tmp_path / "one"), tree(tmp_path / "other")
    os.utime(second_tree / "a.py", ns=(1, 1))
    first = digests(tmp_path, first_tree)
    assert first == digests(tmp_path, second_tree) == [first[0]] * 2
    (second_tree / "part/c.txt").write_text("not source")
    assert digests(tmp_path, second_tree) == first
    (second_tree / "part/b.py").rename(second_tree / "part/d.py")
    assert digests(tmp_path, second_tree)[0] != first[0]


def test_the_digest_of_sources_changes_with_contents_of_equal_size_and_time(tmp_path, monkeypatch):
    """Reproducible builds, which set all times to one date, cause such changes."""
    monkeypatch.setattr(tools, "STABLE_NS", 0)
    root = tree(tmp_path / "one")
    path = root / "a.py"
    os.utime(path, ns=(1, 1))
    before = digests(tmp_path, root)
    time.sleep(0.02)  # the file system's clock must tick
    path.write_text("the text of b.py")
    os.utime(path, ns=(1, 1))
    after = digests(tmp_path, root)
    assert before[0] != after[0]
    assert after[0] == after[1]


def test_recently_changed_sources_have_no_digest_memo(tmp_path):
    root = tree(tmp_path / "one")
    tools._stored_digest(str(tmp_path / "memos"), str(root))
    assert not (tmp_path / "memos").exists()


def test_a_damaged_digest_memo_is_rebuilt(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "STABLE_NS", 0)
    root = tree(tmp_path / "one")
    reference = digests(tmp_path, root)
    (memo,) = (tmp_path / "memos").iterdir()
    second_tree = tree(tmp_path / "other")
    (second_tree / "more.py").write_text("x = 1")
    tools._stored_digest(str(tmp_path / "others"), str(second_tree))
    (other_memo,) = (tmp_path / "others").iterdir()
    for damaged in (b"", b"x" * 64, memo.read_bytes()[:40], other_memo.read_bytes()):
        memo.write_bytes(damaged)
        assert digests(tmp_path, root) == reference


def test_digest_memos_are_not_cache_entries(store, tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "STABLE_NS", 0)
    tools._stored_digest(store.path, str(tree(tmp_path / "one")))
    assert (store.entries(), store.size()) == ([], 0)
    store.trim()
    assert len(list(Path(store.path).iterdir())) == 1
    assert store.clear() == 0
    assert list(Path(store.path).iterdir()) == []


def test_the_pools_code_is_cached_in_the_configured_folder(tmp_path):
    text = """
import sys, tegula as tg
from tegula.backend import pool
import tegula.runtime.compile
tg.config.kernel_cache_dir = sys.argv[1] or None
tg.config.cache_kernels = sys.argv[1] != ""
pool.WorkerPool(2)
"""
    env = os.environ | {"TEGULA_CACHE_DIR": str(tmp_path / "environment")}
    for expected in (str(tmp_path / "configured"), ""):
        subprocess.run([sys.executable, "-c", text, expected], env=env, check=True)
    assert not (tmp_path / "environment").exists()
    assert len(Cache(tmp_path / "configured").entries()) == 1


FIRST = """
import sys
import threading
from tegula.backend import cache, tools
threads = []
computed = tools._stored_digest
def recorded(*arguments):
    threads.append(threading.current_thread() is threading.main_thread())
    return computed(*arguments)
tools._stored_digest = recorded
import tegula as tg
@tg.kernel
def doubled(a: tg.array[float]):
    tg.tile_store(a, tg.tile_load(a, 8) * 2.0)
a = tg.ones(8)
tg.launch_tiled(doubled, 1, inputs=[a], block_dim=32)
assert a.numpy()[0] == 2
print(threads, "tegula.backend.llvm" in sys.modules)
"""


def test_a_first_compile_reads_tegulas_sources_while_llvm_runs(tmp_path):
    """With an empty cache, whose look-ups need no key; the next process finds the entry."""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", FIRST],
            env=os.environ | {"TEGULA_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert outputs == ["[False] True\n", "[True] False\n"]


def test_a_cache_is_empty_until_its_first_entry(store):
    assert store.is_empty()
    store.put("ab", Entry({}, b"code"))
    assert not store.is_empty()
    store.clear()
    assert store.is_empty()
