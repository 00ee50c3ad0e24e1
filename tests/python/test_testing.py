"""facula.testing: what must be close, what must not, and what the failure says."""
import numpy as np
import pytest

import facula
from facula.testing import assert_close, make_tensor


def test_close_values_pass():
    assert_close(facula.tensor([1.0, 2.0]), facula.tensor([1.0, 2.0 + 1e-7]))
    assert_close([facula.ones(2), {"a": facula.zeros(1)}], [facula.ones(2), {"a": facula.zeros(1)}])
    assert_close(np.arange(3.0), facula.arange(3.0, dtype=facula.float64))
    assert_close(facula.tensor([float("nan")]), facula.tensor([float("nan")]), equal_nan=True)
    assert_close(3, 3)


@pytest.mark.parametrize("actual, expected, says", [
    (facula.tensor([1.0, 2.0, 3.0]), facula.tensor([1.0, 2.5, 3.0]), r"1 of 3 values differ; the most at \(1,\): 2.0 and 2.5"),
    (facula.ones(2), facula.ones(3), r"shapes differ: \(2,\) and \(3,\)"),
    (facula.ones(2), facula.ones(2, dtype=facula.float64), "dtypes differ"),
    (facula.tensor(2 ** 60), facula.tensor(2 ** 60 + 1), "differ"),
    (facula.tensor([float("nan")]), facula.tensor([float("nan")]), "differ"),
    ([facula.ones(1)], [], "lengths differ"),
    ({"a": facula.ones(1)}, {"b": facula.ones(1)}, "keys differ"),
])
def test_others_fail_and_say_why(actual, expected, says):
    with pytest.raises(AssertionError, match=says):
        assert_close(actual, expected)


def test_tolerances_come_in_pairs():
    with pytest.raises(ValueError, match="together"):
        assert_close(1.0, 1.0, rtol=1e-3)
    with pytest.raises(AssertionError, match="mine"):
        assert_close(1.0, 2.0, msg="mine")


@pytest.mark.parametrize("dtype", [facula.bool, facula.uint8, facula.int64, facula.float16, facula.float32, facula.complex64])
def test_make_tensor(dtype):
    x = make_tensor(4, 5, dtype=dtype, noncontiguous=True)
    assert x.shape == (4, 5) and x.dtype is dtype and not x.is_contiguous()
    y = make_tensor((50,), dtype=dtype, low=0, high=2, exclude_zero=True)
    assert bool((y != 0).all())
