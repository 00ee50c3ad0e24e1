from facula.utils import checkpoint as checkpoint, data as data, dlpack as dlpack, tensorboard as tensorboard

cmake_prefix_path: str
