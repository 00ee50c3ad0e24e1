# The types of results with names, such as that of facula.max along a dim.
from facula._ops.return_types import *
