from __future__ import annotations

import doctest
import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import zcbench
from zcbench.errors import UnknownNameError
from zcbench.registry import Registry

ROOT = Path(zcbench.__file__).parent
MODULES = [m.name for m in pkgutil.walk_packages(zcbench.__path__, "zcbench.") if ".tests" not in m.name]


@pytest.mark.parametrize("name", ["zcbench", *MODULES])
def test_modules_are_documented_and_their_examples_run(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    assert doctest.testmod(module).failed == 0


def test_the_public_surface() -> None:
    for name in zcbench.__all__:
        assert getattr(zcbench, name) is not None
    with pytest.raises(AttributeError, match="colour"):
        zcbench.colour  # noqa: B018


@pytest.mark.parametrize("name", zcbench.__all__)
def test_every_public_name_is_in_the_reference_and_has_an_example_that_runs(name: str) -> None:
    text = (ROOT / "docs" / "api.md").read_text("utf-8")
    public = getattr(zcbench, name)
    if not (inspect.isclass(public) or inspect.isfunction(public)):
        assert name == "__version__" or f"`zcbench.{name}`" in text
        return
    assert f"::: zcbench.{name}\n" in text
    examples = doctest.DocTestParser().get_examples(public.__doc__ or "")
    assert examples
    assert not any(doctest.SKIP in example.options for example in examples)


def test_importing_is_light() -> None:
    script = "import sys, zcbench; assert not {'torch', 'numpy', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


SCORE = """
import sys, torch, zcbench
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3))
assert zcbench.score(net, torch.ones(2, 3, 2, 2), proxies=["params"])["params"].value == 39
assert zcbench.DATASETS and zcbench.SPACES
assert "pytorch_lightning" not in sys.modules
"""


def test_scoring_imports_no_lightning() -> None:
    subprocess.run([sys.executable, "-c", SCORE], check=True)


@pytest.mark.parametrize(
    "command",
    [
        ["-c", SCORE],
        ["-m", "zcbench", "score", "--arch", "6111", "--batch_size", "2", "--proxies", "params"],
        *(["-m", "zcbench", "list", kind] for kind in ("proxies", "spaces", "datasets", "studies", "searches")),
    ],
    ids=lambda command: "script" if command[0] == "-c" else " ".join(command[2:4]),
)
def test_a_broken_lightning_breaks_no_score_and_no_list(command: list[str], tmp_path: Path) -> None:
    # As with a torchvision that does not fit torch: Lightning imports it, through torchmetrics.
    for name in ("pytorch_lightning", "lightning", "lightning_fabric", "torchmetrics"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    broken = subprocess.run(
        [sys.executable, "-c", "import pytorch_lightning"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "torchvision::nms" in broken.stderr
    subprocess.run([sys.executable, *command], env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path, check=True)


def test_versions_and_packages_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert zcbench.__version__ == version("zcbench") == project["project"]["version"]
    ignored = {".tox", ".venv", "tools"}  # tools serve the project alone and are not shipped
    folders = {p.parent.relative_to(ROOT) for p in ROOT.rglob("__init__.py") if not ignored & set(p.parts)}
    dotted = {".".join(("zcbench", *folder.parts)) for folder in folders}
    assert dotted == set(project["tool"]["setuptools"]["packages"])


def test_data_files_are_packaged() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packed = {
        path
        for package, patterns in settings["package-data"].items()
        for pattern in patterns
        for path in ROOT.joinpath(*package.split(".")[1:]).glob(pattern)
    }
    folders = [ROOT.joinpath(*package.split(".")[1:]) for package in settings["packages"] if package != "zcbench"]
    assert {p for folder in folders for p in folder.iterdir() if p.is_file() and p.suffix != ".py"} <= packed
    assert ROOT / "proxies" / "costs.json" in packed


def test_a_registry_suggests_and_refuses() -> None:
    registry: Registry[int] = Registry("colour")
    registry.add("red", 1)
    with pytest.raises(ValueError, match="registered twice"):
        registry.add("red", 2)
    with pytest.raises(UnknownNameError, match=r"^unknown colour 'rad': did you mean red\?$"):
        registry["rad"]
    with pytest.raises(UnknownNameError, match="known: red"):
        registry["zzz"]
    assert "rad" not in registry
    assert registry.get("rad") is None
    assert list(registry) == ["red"]
