"""A short walk through an installed facula, as a user's first minute: needs the package and NumPy alone.

    smoke.py [--consumer FOLDER]   FOLDER: a C++ project that wants find_package(Facula); it is built in the current folder
"""
import argparse
import subprocess
import sys
from pathlib import Path


def check(condition, text):
    if not condition:
        sys.exit(f"smoke: wrong: {text}")


def tensors():
    import facula as torch

    check("numpy" not in sys.modules, "importing facula imported numpy")
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    check(x.shape == (2, 3) and x.dtype is torch.float32, "shape and dtype")
    check((x @ x.t()).tolist() == [[5.0, 14.0], [14.0, 50.0]], "a matrix product")
    check((x[1] * 2 + 1).tolist() == [7.0, 9.0, 11.0], "arithmetic")
    check(x[x > 2].sum().item() == 12.0, "a mask")
    values, indices = x.max(dim=1)
    check(values.tolist() == [2.0, 5.0] and indices.tolist() == [2, 2], "max along a dim")
    big = torch.ones(512, 512)
    check((big @ big)[0, 0].item() == 512.0, "a matrix product in oneDNN")
    try:
        x @ x
    except RuntimeError as error:
        check("shapes cannot be multiplied" in str(error), f"the text of an error: {error}")
    else:
        check(False, "a product of unfit shapes was accepted")


def libraries():
    """The libraries in the process are those of the package, not others of the machine."""
    import facula

    home = Path(facula.__file__).resolve().parent
    with open("/proc/self/maps", encoding="utf-8") as maps:
        loaded = {line.split(maxsplit=5)[5].strip() for line in maps if "/" in line}
    for stem in ("_native.", "libfacula.so", "libdnnl.so", "libhwy.so", "libgomp.so"):
        found = [path for path in loaded if Path(path).name.startswith(stem)]
        check(len(found) == 1 and Path(found[0]).is_relative_to(home), f"{stem} is loaded from {found}, not from {home}")


def autograd():
    import facula as torch

    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x * x).sum() + x.exp().sum()
    y.backward()
    expected = 2 * x.detach() + x.detach().exp()
    check(torch.allclose(x.grad, expected), f"a gradient: {x.grad}")
    with torch.no_grad():
        check(not (x * 2).requires_grad, "no_grad")


def numpy_both_ways():
    import numpy as np

    import facula as torch

    array = np.arange(12, dtype=np.float64).reshape(3, 4)
    x = torch.from_numpy(array)
    x[0, 0] = 7.0
    check(array[0, 0] == 7.0, "from_numpy shares memory")
    back = x.t().numpy()
    check(back.shape == (4, 3) and np.array_equal(back, array.T), "numpy() of a transposed tensor")
    check(np.array_equal(np.asarray(torch.tensor([1, 2, 3])), np.array([1, 2, 3])), "np.asarray")
    check(torch.tensor(np.float32(2.5)).item() == 2.5, "a scalar of NumPy")
    return np.__version__


def consumer(folder, compiler, generator):
    """A C++ program against the library inside the package, as the documentation says it is built."""
    asked = subprocess.run([sys.executable, "-m", "facula", "--cmake-dir"], stdout=subprocess.PIPE, text=True, check=True)
    cmake_dir = asked.stdout.strip()
    check((Path(cmake_dir) / "FaculaConfig.cmake").is_file(), f"--cmake-dir: {cmake_dir}")
    from facula import utils

    check(Path(cmake_dir).is_relative_to(utils.cmake_prefix_path), f"cmake_prefix_path: {utils.cmake_prefix_path}")
    build = Path("consumer").resolve()
    for command in (["cmake", "-S", folder, "-B", build, "-G", generator, f"-DFacula_DIR={cmake_dir}",
                     f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_BUILD_TYPE=Debug"],
                    ["cmake", "--build", build, "--target", "uses_facula"], [build / "uses_facula"]):
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        check(done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--consumer", default="")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--generator", default="Ninja")
    options = parser.parse_args()
    tensors()
    libraries()
    autograd()
    numpy = numpy_both_ways()
    if options.consumer:
        consumer(options.consumer, options.compiler, options.generator)
    import facula

    print(f"smoke: facula {facula.__version__} from {Path(facula.__file__).parent} works with NumPy {numpy}"
          + (", in C++ too" if options.consumer else ""))


if __name__ == "__main__":
    main()
