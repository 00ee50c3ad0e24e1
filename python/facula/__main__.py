"""Where the C++ side of the installed package lies, for builds that use it: `python -m facula --cmake-dir`; what was found
of GPUs: `python -m facula --gpu`; and all that there is to know when something is wrong: `python -m facula doctor`."""
import argparse
import sys
from pathlib import Path

from . import __version__

HOME = Path(__file__).resolve().parent
PLACES = {
    "cmake-dir": (HOME / "lib" / "cmake" / "Facula", "for CMake's Facula_DIR: the folder of FaculaConfig.cmake"),
    "cmake-prefix": (HOME, "for CMake's CMAKE_PREFIX_PATH"),
    "include-dir": (HOME / "include", "the folder of facula/facula.h"),
    "library-dir": (HOME / "lib", "the folder of libfacula.so"),
}


def describe_gpus():
    """The GPUs, or why there is none, and where libraries were looked for."""
    from . import cuda
    from ._native import _cuda
    if cuda.is_available():
        lines = [f"cuda:{i}  {cuda.get_device_properties(i)!r}" for i in range(cuda.device_count())]
    else:
        lines = [f"no GPU: {cuda.why_not_available()}"]
    return "\n".join(lines + ["", _cuda._describe_search()])


def describe_all():
    """The Python, the package and its library, the processor, the GPUs, and where libraries were looked for."""
    from ._native import _cuda
    return f"Python {sys.version.split()[0]}, package {HOME} {__version__}\n{_cuda._config()}".rstrip("\n")


def main():
    parser = argparse.ArgumentParser(
        prog="python -m facula", description="Tells where the C++ side of the package lies, and what was found.")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--version", action="version", version=__version__)
    for name, (_, text) in PLACES.items():
        group.add_argument(f"--{name}", action="store_const", const=name, dest="place", help=text)
    group.add_argument("--gpu", action="store_true", help="which GPUs there are, and what was looked for")
    group.add_argument("command", nargs="?", choices=["doctor"],
                       help="doctor: versions, the processor's instructions, GPUs, and what was looked for")
    options = parser.parse_args()
    if options.command == "doctor":
        print(describe_all())
        return
    if options.gpu:
        print(describe_gpus())
        return
    place = PLACES[options.place][0]
    if not place.is_dir():
        sys.exit(f"facula: {place} is not there: this package has no C++ side, because it was not installed from a wheel")
    print(place)


if __name__ == "__main__":
    main()
