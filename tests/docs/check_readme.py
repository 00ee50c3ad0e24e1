#!/usr/bin/env python3
"""Does what the pages say. The links of all pages must lead somewhere and the ./dev commands must exist; with --prefix, the
README's programs are built by the README's CMake file against the Facula installed there, and must print what it says.

    check_readme.py                                                   links and commands
    check_readme.py --prefix DIR --work DIR [--compiler CXX]          the programs
    check_readme.py --prefix DIR --work DIR [--compiler CXX] --gpu    the program of the page about GPUs, which needs one
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from pages import blocks

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "first"  # what the README's CMake file calls its program
PAGES_WITH_A_PROGRAM = ("docs/autograd.md", "docs/nn.md")
TUTORIAL = "docs/tutorial.md"  # the text blocks after C++ blocks are what the program prints, piece by piece
GPU_PAGES = ("docs/gpu.md",)


def fail(text):
    sys.exit(f"docs: {text}")


def pages():
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md"), *(ROOT / "examples").glob("*.md")]


def check_links():
    """Links within the tree: the file exists, and a heading or an anchor of that name is on it."""
    broken = []
    for page in pages():
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            to = (page.parent / file).resolve() if file else page
            if not to.exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
            elif anchor and anchor not in anchors(to):
                broken.append(f"{page.relative_to(ROOT)}: {target} (no such heading)")
    if broken:
        fail("broken links:\n  " + "\n  ".join(broken))


def anchors(page):
    headings = re.findall(r"^#+ +(.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", h).strip().replace(" ", "-").lower() for h in headings} | {h.strip("`") for h in headings}


def check_commands():
    """Every ./dev command of a page is one that `./dev help` lists, with its first argument and options."""
    known = {}
    for line in subprocess.run(["./dev", "help"], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines():
        entry = re.match(r"  (\w+)(.*?)   ", line + "   ")
        if entry:
            known[entry[1]] = known.get(entry[1], "") + entry[2]
    for page in pages():
        for command, rest in re.findall(r"(?:^|`| )\./dev (\w+)([^`\n#]*)", page.read_text()):
            place = f"{page.relative_to(ROOT)}: ./dev {command}{rest}"
            if command not in known:
                fail(f"{place}: `./dev help` does not list it")
            for option in re.findall(r"--\w+", rest):
                if option not in known[command]:
                    fail(f"{place}: `./dev help` lists no {option} for it")


def check_environment():
    """Every environment variable that the library reads is on the page about them."""
    table = (ROOT / "src" / "core" / "env.h").read_text()
    page = (ROOT / "docs" / "environment.md").read_text()
    absent = [name for name in re.findall(r'_\(\w+, "(\w+)"', table) if f"`{name}`" not in page]
    if absent:
        fail(f"docs/environment.md does not tell of {', '.join(absent)}")


def must_work(command):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))} fails:\n{done.stdout}")


def write_project(folder, project, program):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "CMakeLists.txt").write_text(project)
    (folder / f"{PROGRAM}.cpp").write_text(program)


def configure(folder, compiler, *options):
    must_work(["cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={compiler}", *options])


def check_subfolder(project, program, folder, compiler):
    """Facula as a subfolder configures, gives the target, and brings no tests along."""
    inside, count = re.subn(r"find_package\(Facula[^)]*\)", f'add_subdirectory("{ROOT}" facula)', project)
    if count != 1:
        fail("README.md: the cmake block has no find_package(Facula)")
    write_project(folder, inside, program)
    configure(folder, compiler)
    if (folder / "build" / "facula" / "tests").exists():
        fail("the tests of Facula are part of a project that has it as a subfolder")


def check_programs(prefix, work, compiler, gpu):
    """Each C++ block of the README becomes the program of its CMake block; the text block after it is the output. The C++
    blocks of another page are one program together, which prints the text block after the last, and those of the tutorial
    one that prints all text blocks after C++ blocks."""
    page = ROOT / "README.md"
    found = blocks(page)
    projects = [b for b in found if b.language == "cmake"]
    programs = [("README.md", b, after) for b, after in zip(found, found[1:]) if b.language == "cpp"]
    if len(projects) != 1 or not programs:
        fail(f"README.md: expected one cmake block and some cpp blocks, got {len(projects)} and {len(programs)}")
    if gpu:
        programs = []
    else:
        check_subfolder(projects[0].text, programs[0][1].text, work / "subfolder", compiler)
    for name in GPU_PAGES if gpu else PAGES_WITH_A_PROGRAM:
        parts = blocks(ROOT / name)
        last = max(i for i, part in enumerate(parts) if part.language == "cpp")
        whole, output = parts[last], parts[last + 1]
        whole.text = "\n".join(part.text for part in parts[:last + 1] if part.language == "cpp")
        programs.append((name, whole, output))
    if not gpu:
        parts = blocks(ROOT / TUTORIAL)
        code = [part for part in parts if part.language == "cpp"]
        said = [after for part, after in zip(parts, parts[1:]) if part.language == "cpp" and after.language == "text"]
        whole, output = code[-1], said[-1]
        whole.text = "\n".join(part.text for part in code)
        output.text = "".join(part.text for part in said)
        programs.append((TUTORIAL, whole, output))
    for number, (name, program, output) in enumerate(programs, 1):
        place = f"{name}:{program.line}"
        if output.language != "text":
            fail(f"{place}: a text block with the output must follow")
        folder = work / f"program{number}"
        write_project(folder, projects[0].text, program.text)
        configure(folder, compiler, f"-DCMAKE_PREFIX_PATH={prefix}")
        must_work(["cmake", "--build", folder / "build"])
        ran = subprocess.run([folder / "build" / PROGRAM], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if ran.returncode != 0 or ran.stdout != output.text:
            fail(f"{place}: exits with {ran.returncode} and prints\n{ran.stdout}instead of\n{output.text}")
        print(f"docs: {place} prints what it says")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--compiler", default=os.environ.get("CXX", "c++"))
    parser.add_argument("--gpu", action="store_true")
    options = parser.parse_args()
    if options.prefix:
        check_programs(options.prefix, options.work, options.compiler, options.gpu)
    else:
        check_links()
        check_commands()
        check_environment()


if __name__ == "__main__":
    main()
