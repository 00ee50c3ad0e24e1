record("lstm", recurrent("lstm"), **recurrent_samples(4, states_of_two=True))
