"""What the tests of GPUs share: they run where there is one, a real one or the software one of tests/simgpu."""
import numpy as np
import pytest

import facula

needs_gpu = pytest.mark.skipif(not facula.cuda.is_available(), reason=facula.cuda.why_not_available())
two_devices = pytest.mark.skipif(facula.cuda.device_count() < 2, reason="needs two devices")


def close(a, b, tolerance=1e-6):
    np.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().cpu().numpy() if hasattr(b, "detach") else b,
                               rtol=tolerance, atol=tolerance)
