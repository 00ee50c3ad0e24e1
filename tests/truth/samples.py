"""Samples that several records share."""
import numpy as np

from record import FLOATS, WIDE_FLOATS, DTypeError, ShapeError, U, call, error, float32, float64, t, v


def recurrent_samples(gates, states_of_two=False):
    """Of an op that runs a recurrent network: `gates` times the hidden size are the rows of its weights; an LSTM has two
    tensors of states."""
    def states(count, batch, hidden):
        made = [t(count, batch, hidden, **U) for _ in range(2 if states_of_two else 1)]
        return made if states_of_two else made[0]

    def weights(features, hidden, layers=1, directions=1, biases=True):
        made = []
        for layer in range(layers):
            for _ in range(directions):
                inputs = features if layer == 0 else hidden * directions
                made += [t(gates * hidden, inputs, **U), t(gates * hidden, hidden, **U)]
                made += [t(gates * hidden, **U), t(gates * hidden, **U)] if biases else []
        return made

    return dict(
        dtypes=FLOATS, loose=60, rounds=24, threads=False, result=lambda *args, **kwargs: args[0].dtype,
        samples=[call(t(4, 3, 5, **U), states(1, 3, 6), weights(5, 6), True, 1, 0.0, True, False, False),
                 call(t(4, 2, 5, **U), states(2, 2, 3), weights(5, 3, 2), True, 2, 0.0, False, False, False),
                 call(t(4, 2, 5, **U), states(2, 2, 3), weights(5, 3, 1, 2), True, 1, 0.0, False, True, False),
                 call(t(2, 4, 3, **U), states(4, 2, 5), weights(3, 5, 2, 2, False), False, 2, 0.0, False, True, True),
                 call(t(3, 17, 5, **U), states(1, 17, 33), weights(5, 33), True, 1, 0.0, False, False, False, only=[float32, float64])],
        gradient=[call(t(3, 2, 2, **U), states(1, 2, 3), weights(2, 3), True, 1, 0.0, True, False, False),
                  call(t(2, 2, 2, **U), states(2, 2, 2), weights(2, 2, 1, 2, False), False, 1, 0.0, False, True, False)],
        errors=[error(call(t(4, 5), states(1, 3, 6), weights(5, 6), True, 1, 0.0, True, False, False), ShapeError, "3-dimensional"),
                error(call(t(4, 3, 5), states(1, 2, 6), weights(5, 6), True, 1, 0.0, True, False, False), ShapeError, "Expected hidden size"),
                error(call(t(4, 3, 5), states(1, 3, 6), weights(4, 6), True, 1, 0.0, True, False, False), ShapeError, "input weight of layer 0"),
                error(call(t(4, 3, 5), states(1, 3, 6), weights(5, 6), True, 2, 0.0, True, False, False), ValueError, "weights")])


def activated_sums(*options):
    """Of an op that activates beta self + alpha mat1 mat2, with each of these further arguments."""
    def with_each(*args, only=None, **factors):
        return [call(*args, only=only, **factors, **more) for more in options or ({},)]

    # Far from the kink of relu, on both sides of it.
    far = [3.0, -3.0, 4.0, -4.0]
    return dict(
        # Two roundings are ours, of sum and result. An error seen with a GPU's library was larger than two can make.
        dtypes=FLOATS, loose=60, rounds=3,
        samples=[*with_each(t(3, 4, **U), t(3, 5, **U), t(5, 4, **U)), *with_each(t(4, **U), t(3, 5, **U), t(5, 4, **U)),
                 *with_each(t(8, **U), t(6, 5, **U), t(5, 8, **U), alpha=-1),
                 *with_each(t(**U), t(3, 5, **U), t(5, 4, **U), beta=2, alpha=3),
                 *with_each(t(33, **U), t(40, 70, layout="transposed", **U), t(70, 33, **U)),
                 *with_each(t(3, 4), t(3, 0), t(0, 4), beta=2), *with_each(t(4), t(0, 5), t(5, 4)),
                 *with_each(v([[np.nan, 1.0]]), t(1, 3, **U), t(3, 2, **U), beta=0, only=WIDE_FLOATS),
                 *with_each(t(8, **U), t(6, 5, **U), t(5, 8, **U), beta=0),
                 *with_each(t(3, 4, layout="transposed", **U), t(3, 5, **U), t(5, 4, **U), beta=0.5, alpha=0.25)],
        gradient=[*with_each(v(far), t(3, 2, **U), t(2, 4, **U)),
                  *with_each(v([far, far[::-1]]), t(2, 2, **U), t(2, 4, **U), beta=2, alpha=-0.5)],
        errors=[error(call(t(3, 4), t(3, 5), t(4, 4)), ShapeError, "cannot be multiplied"),
                error(call(t(2, 5), t(3, 5), t(5, 4)), ShapeError, "_addmm_activation"),
                error(call(t(3, 4), t(3), t(3, 4)), ShapeError, "_addmm_activation: mat1 must be a matrix"),
                error(call(t(4, dtype="float64"), t(3, 5), t(5, 4)), DTypeError, "self and mat2 must have the same dtype"),
                error(call(t(4, dtype="complex64"), t(3, 5, dtype="complex64"), t(5, 4, dtype="complex64")), DTypeError,
                      "_addmm_activation")])
