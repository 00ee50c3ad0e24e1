"""The type stubs: the checkers accept the sample, and the stubs say what is there, no more and no less."""
import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import facula

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "facula"
SAMPLE = ROOT / "tests" / "python" / "typing_sample.py"


def run(*command, cwd=ROOT):
    """Runs a tool on the stubs of the source tree and gives what it says."""
    environment = dict(os.environ, MYPYPATH=str(ROOT / "python"))
    done = subprocess.run([sys.executable, "-m", *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, cwd=cwd, env=environment, check=False)
    return done.returncode, done.stdout


def test_mypy_accepts_the_sample(tmp_path):
    pytest.importorskip("mypy")
    code, said = run("mypy", "--cache-dir", tmp_path, SAMPLE)
    assert code == 0, said


def test_pyright_accepts_the_sample():
    pytest.importorskip("pyright")
    code, said = run("pyright", "--project", ROOT / "pyproject.toml")
    assert code == 0, said


def test_stubs_match_the_package(tmp_path):
    """mypy's stubtest imports every module and compares names, kinds and signatures."""
    pytest.importorskip("mypy")
    allowed = tmp_path / "allowed"
    allowed.write_text("\n".join([
        r"facula\._ops.*",  # types only: the ops are in _native
        r"facula\.return_types\..*",  # tuples made in C++; the stubs say NamedTuple
        r"facula\._native\..*",  # compared by name below: it has signatures in its doc strings only
        # No stubs: they are annotated where they are written.
        r"facula\.(testing|array_api|cuda)(\..*)?",
        r"facula\.utils\._.*", r"facula\._(rebuild|print)\..*", r"facula\.__main__",
        r"facula\.[a-z_.]*__(getattr|dir)__",  # lazy imports, which the stubs do not need
        r"facula\..*\.__replace__",  # of named tuples and data classes, from Python 3.13 on
        r"facula\.autograd\.grad_mode\.(no_grad|enable_grad|inference_mode)\..*",  # decorators with and without ()
        r"facula\.autograd\.function\.(Function|FunctionMeta)\..*",
        r"facula\.autograd\.Variable\..*",  # the tensor
    ]) + "\n")
    code, said = run("mypy.stubtest", "facula", "--allowlist", allowed, "--ignore-unused-allowlist",
                     "--mypy-config-file", ROOT / "pyproject.toml", cwd=tmp_path)
    assert code == 0, said


def names_in(stub, class_name=None, follow=True):
    """The public names that a stub gives to a module or a class."""
    tree = ast.parse((PACKAGE / stub).read_text())
    if class_name:
        tree = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == class_name)
    found = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found |= {t.id for t in node.targets}
        elif isinstance(node, ast.ImportFrom) and follow:
            for alias in node.names:
                if alias.name == "*":
                    target = node.module.split(".", 1)[1]
                    folder = PACKAGE / target
                    inner = f"{target}/__init__.pyi" if folder.is_dir() else f"{target}.pyi"
                    found |= names_in(inner)
                elif alias.asname == alias.name or (alias.asname and stub.startswith("autograd")):
                    found.add(alias.asname)
    listed = next((n for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "__all__"), None)
    if listed is not None and stub == "_ops/__init__.pyi":
        found = set(ast.literal_eval(listed.value))
    return {n for n in found if not n.startswith("_")}


def test_names_of_the_package():
    there = {n for n in dir(facula) if not n.startswith("_")}
    there |= {"vmap"}  # found by __getattr__
    assert names_in("__init__.pyi") - there == set(), "in the stub only"
    assert there - names_in("__init__.pyi") - {"testing"} == set(), "not in the stub"


def test_names_of_the_tensor():
    there = set(dir(facula.Tensor)) - set(dir(object))
    stub = {n for c, s in (("Tensor", "_native.pyi"), ("_TensorOps", "_ops/__init__.pyi")) for n in names_in(s, c)}
    special = {n.name for n in ast.walk(ast.parse((PACKAGE / "_native.pyi").read_text())) if isinstance(n, ast.FunctionDef)}
    assert stub - there == set(), "in the stub only"
    assert {n for n in there if not n.startswith("_")} - stub == set(), "not in the stub"
    hidden = {"__module__", "__dict__", "__delitem__", "__weakref__"}
    assert {n for n in there if n.startswith("__")} - special - hidden == set(), "not in the stub"
