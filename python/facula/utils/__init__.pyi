from facula.utils import checkpoint as checkpoint, dlpack as dlpack

cmake_prefix_path: str
