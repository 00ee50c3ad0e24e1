record("gru", recurrent("gru"), **recurrent_samples(3))
