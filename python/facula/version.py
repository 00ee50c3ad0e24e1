"""The version of the package and of the GPU platform that it found: `cuda` or `hip` is a text such as '13.0', the other
None."""
__version__ = "0.1.0"


def _platform(hip):
    from . import _native
    gpu = _native._cuda
    if not gpu._is_available() or gpu._is_hip() != hip:
        return None
    version = gpu._driver_version()
    return f"{version // 10000000}.{version // 100000 % 100}" if hip else f"{version // 1000}.{version % 1000 // 10}"


def __getattr__(name):
    if name in ("cuda", "hip"):
        return _platform(name == "hip")
    raise AttributeError(f"module 'facula.version' has no attribute '{name}'")
