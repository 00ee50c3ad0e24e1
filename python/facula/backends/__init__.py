"""Switches of what computes underneath."""
from . import cuda as cuda
