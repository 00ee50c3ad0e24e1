"""Where the C++ side of the installed package lies, for builds that use it: `python -m facula --cmake-dir`."""
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


def main():
    parser = argparse.ArgumentParser(prog="python -m facula", description="Tells where the C++ side of the package lies.")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--version", action="version", version=__version__)
    for name, (_, text) in PLACES.items():
        group.add_argument(f"--{name}", action="store_const", const=name, dest="place", help=text)
    place = PLACES[parser.parse_args().place][0]
    if not place.is_dir():
        sys.exit(f"facula: {place} is not there: this package has no C++ side, because it was not installed from a wheel")
    print(place)


if __name__ == "__main__":
    main()
