record("rnn_relu", recurrent("relu"), **recurrent_samples(1))
