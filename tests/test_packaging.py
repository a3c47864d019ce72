"""The packages: what a wheel holds, that it works anywhere, and that the checkout does not shadow `datasets`."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Literal

import pytest
from kit.interpreter import Interpreter
from kit.once import Once
from kit.packages import FOLDERS, ROOT, build, copied
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OWN_NAMES = ("methods", "datasets", "leaderboard")


def run(program: str, cwd: Path, *before: Path) -> str:
    """What a program prints in a fresh interpreter, with folders first on its path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(folder) for folder in before)}
    done = subprocess.run([sys.executable, "-c", program], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# In the checkout ----------------------------------------------------------------------------------------------------


def test_the_folder_of_datasets_is_no_package_of_its_own() -> None:
    # With an __init__.py, the checkout's root on sys.path would hide Hugging Face's `datasets`.
    assert (ROOT / "datasets").is_dir()
    assert list((ROOT / "datasets").glob("__init__.*")) == []


def test_datasets_is_hugging_faces_package_in_the_checkouts_root_beside_those_of_bench() -> None:
    program = """
import sys
assert sys.path[0] == ""
import bench.datasets.starter.loader, datasets, bench.methods.tgr.method
datasets.load_dataset
print(datasets.__name__, bench.datasets.starter.loader.__name__, datasets.__file__)
"""
    foreign, values, file = run(program, ROOT).split()
    assert (foreign, values) == ("datasets", "bench.datasets.starter.loader")
    assert not Path(file).is_relative_to(ROOT / "datasets")


@pytest.mark.parametrize("name", FOLDERS)
def test_the_root_first_on_the_path_hides_no_package(name: str, tmp_path: Path) -> None:
    """As `python -m pytest` has it: the working folder, then site-packages."""
    program = f"""
import importlib.util, sys
assert sys.path[1] == {str(ROOT)!r}
spec = importlib.util.find_spec({name!r})
print(spec.origin if spec else None)
"""
    origin = run(program, tmp_path, ROOT)
    if name == "bench":
        assert origin == str(ROOT / "bench" / "__init__.py")
    elif name == "datasets":
        assert origin.endswith("datasets/__init__.py")
        assert not origin.startswith(str(ROOT / "datasets"))
    else:
        assert origin == "None"  # a namespace at most: it hides no real package


@pytest.mark.parametrize("where", ["root", "elsewhere"])
def test_methods_and_datasets_are_imported_below_bench(
    interpreter: Interpreter, where: Literal["root", "elsewhere"], tmp_path: Path
) -> None:
    modules = ("bench.methods.tgr.method", "bench.datasets.apibank.loader", "bench.datasets.starter.loader")
    program = "".join(f"import {module}; print({module}.__file__)\n" for module in modules)
    printed = interpreter(program, folder=ROOT if where == "root" else tmp_path, path=(ROOT,)).stdout.splitlines()
    for module, file in zip(modules, printed, strict=True):
        folder, name = module.split(".")[1:3]
        assert Path(file).is_relative_to(ROOT / folder / name)


# Built --------------------------------------------------------------------------------------------------------------


packages = pytest.mark.slow("packages built and installed")


@pytest.fixture(scope="session")
def wheel(once: Once, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the checkout, once in a run."""
    source = tmp_path_factory.mktemp("source") / "checkout"
    (built,) = once("wheel", lambda folder: build(copied(source), folder, "--wheel")).glob("*.whl")
    return built


def in_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        return {name for name in archive.namelist() if not name.endswith("/")}


def expected() -> set[str]:
    """Every source and data file of the checkout, by its place in an installation."""
    files = set()
    for name in FOLDERS:
        for path in (ROOT / name).rglob("*"):
            inside = path.relative_to(ROOT / name)
            hidden = any(part.startswith(".") or part == "__pycache__" for part in inside.parts)
            if path.is_file() and not hidden and path.suffix != ".pyc":
                files.add(("bench" if name == "bench" else f"bench/{name}") + f"/{inside.as_posix()}")
    return files


@packages
def test_a_wheel_holds_every_source_and_data_file_below_bench_and_nothing_else(wheel: Path) -> None:
    names = in_wheel(wheel)
    about = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    assert {name.split("/")[0] for name in names - about} == {"bench"}
    assert len({name.split("/")[0] for name in about}) == 1
    assert names - about == expected()


@packages
@pytest.mark.parametrize(
    ("pattern", "least"),
    [
        ("bench/datasets/*/card.toml", 7),
        ("bench/datasets/*/edges.tsv", 2),
        ("bench/datasets/starter/*.jsonl", 2),
        ("bench/cli/schemas/*.json", 5),
        ("bench/methods/*.py", 10),
        ("bench/methods/*/*.py", 4),
        ("bench/leaderboard/pages/templates/*.j2", 10),
        ("bench/leaderboard/pages/static/*", 4),
        ("bench/lab/reproduce/artefacts.toml", 1),
        ("bench/example/files/*", 4),
        ("bench/example/files/*/*", 2),
        ("bench/example/files/*/*/*.yml", 1),
        ("bench/py.typed", 1),
    ],
)
def test_the_data_files_of_a_wheel_are_those_of_the_checkout(wheel: Path, pattern: str, least: int) -> None:
    collected = [name for name in in_wheel(wheel) if Path(name).match(pattern)]
    assert len(collected) >= least
    with zipfile.ZipFile(wheel) as archive:
        for name in collected:
            inside = name.removeprefix("bench/")
            path = ROOT / (inside if inside.split("/")[0] in OWN_NAMES else name)
            assert archive.read(name) == path.read_bytes()


@packages
def test_the_same_source_gives_the_same_wheel_to_the_last_byte(wheel: Path, tmp_path: Path) -> None:
    copy = copied(tmp_path / "elsewhere")
    for path in copy.rglob("*"):
        # Another time, as of another checkout.
        os.utime(path, (1_600_000_000, 1_600_000_000))
    (again,) = build(copy, tmp_path / "again", "--wheel").glob("*.whl")
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


@packages
def test_a_new_dataset_and_a_new_method_are_packed_without_a_list(tmp_path: Path) -> None:
    changed = copied(tmp_path / "changed")
    shutil.copytree(changed / "datasets/starter", changed / "datasets/brand_new")
    (changed / "methods/brand_new").mkdir()
    (changed / "methods/brand_new/method.py").write_text('"""New."""\n')
    (built,) = build(changed, tmp_path / "out", "--wheel").glob("*.whl")
    names = in_wheel(built)
    assert {"bench/datasets/brand_new/card.toml", "bench/datasets/brand_new/tools.jsonl"} <= names
    assert "bench/methods/brand_new/method.py" in names


@packages
def test_a_wheel_says_what_it_needs_and_what_it_offers(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (about,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        metadata = email.message_from_bytes(archive.read(f"{about}/METADATA"))
        points = archive.read(f"{about}/entry_points.txt").decode()
    needs = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    base = {need.name for need in needs if need.marker is None}
    assert {"click", "numpy", "pyarrow"} <= base
    assert not base & {"torch", "transformers", "sentence-transformers", "openai", "datasets", "pandas"}
    assert not base & {"anyio", "latex2mathml", "threadpoolctl"}
    assert {"models", "leaderboard", "llm", "hub", "pandas", "openvino", "all"} <= set(
        metadata.get_all("Provides-Extra", [])
    )
    # What an entry point names is there.
    for target in ("bench.gating.pytest_plugin", "bench.__main__:main"):
        assert f"bench = {target}\n" in f"{points}\n"
        assert target.partition(":")[0].replace(".", "/") + ".py" in in_wheel(wheel)


@packages
def test_an_installed_wheel_works_from_any_folder(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
    subprocess.run([*pip, "--target", str(target), str(wheel)], check=True)
    program = """
import bench.methods.tgr.method, bench.registry as r
dataset = r.load_dataset("starter")
print(len(dataset.tools) > 100, "tgr" in r.method_names(), "apibank" in r.dataset_entries())
print(bench.__file__, bench.methods.tgr.method.__file__, r.dataset_entry("starter").folder)
import datasets
print(datasets.__file__)
"""
    work = tmp_path / "elsewhere"
    work.mkdir()
    result, places, foreign = run(program, work, target).splitlines()
    assert result == "True True True"
    for place in places.split():
        assert Path(place).is_relative_to(target)
    assert not Path(foreign).is_relative_to(target)
    assert list(work.iterdir()) == []
    # And the program itself.
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--help"],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
    assert (target / "bin" / "bench").is_file()


@packages
def test_an_sdist_builds_the_same_wheel_as_the_checkout(wheel: Path, tmp_path: Path) -> None:
    out = build(copied(tmp_path / "checkout"), tmp_path / "out")
    (sdist,) = out.glob("*.tar.gz")
    (from_sdist,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(from_sdist) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())
        differing = [name for name in one.namelist() if one.read(name) != other.read(name)]
    assert [name for name in differing if not name.endswith("/RECORD")] == []
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "datasets/starter/tools.jsonl", "methods/tgr/method.py"} <= names


# The lock -----------------------------------------------------------------------------------------------------------


def test_the_lock_pins_what_the_environment_needs_by_version_and_hash() -> None:
    lock = (ROOT / "requirements.lock").read_text().replace("\\\n", " ")
    pinned = {}
    for line in filter(lambda line: not line.startswith("#"), lock.splitlines()):
        requirement, *hashes = line.split()
        name, version = requirement.split("==")
        assert hashes, line
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", text) for text in hashes), line
        pinned[canonicalize_name(name)] = version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    named += project["project"]["optional-dependencies"]["dev"]
    for wanted in map(Requirement, named):
        name = canonicalize_name(wanted.name)
        # An extra of the project itself; and torch, whose build is the machine's choice.
        if name in {project["project"]["name"], "torch"} or (wanted.marker and not wanted.marker.evaluate()):
            continue
        assert wanted.specifier.contains(pinned[name]), wanted
