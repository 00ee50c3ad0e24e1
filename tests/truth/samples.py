"""Samples that several records share."""
from record import FLOATS, ShapeError, U, call, error, float32, float64, t


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
        dtypes=FLOATS, loose=60, rounds=8, threads=False, result=lambda *args, **kwargs: args[0].dtype,
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
