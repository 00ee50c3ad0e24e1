"""The version of the package and of the GPU platform that it found: `cuda` or `hip` is a text such as '13.0', the other
None."""
__version__ = "0.1.0"


def __getattr__(name):
    if name in ("cuda", "hip"):
        from . import _native
        return _native._cuda._version_hip() if name == "hip" else _native._cuda._version_cuda()
    raise AttributeError(f"module 'facula.version' has no attribute '{name}'")
