"""Helpers around tensors."""

from __future__ import annotations

import importlib as _importlib
import pathlib as _pathlib

# For CMake's CMAKE_PREFIX_PATH: find_package(Facula) finds the library and the headers inside the installed package.
cmake_prefix_path = str(_pathlib.Path(__file__).resolve().parents[1])

_LAZY = ("checkpoint", "data", "dlpack", "tensorboard")


def __getattr__(name):
    if name in _LAZY:
        return _importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'facula.utils' has no attribute '{name}'")
