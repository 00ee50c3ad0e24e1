record("rnn_tanh", recurrent("tanh"), **recurrent_samples(1))
