"""The seed of tests that draw inputs: FACULA_SEED, or fresh every run. The head of a run prints it."""

import os
import secrets

SEED = int(os.environ.get("FACULA_SEED") or secrets.randbits(32))


def seed_text():
    return f"FACULA_SEED={SEED}"
