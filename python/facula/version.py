"""The version of the package and of the GPU platform that it found."""
__version__ = "0.1.0"
cuda = None
hip = None
