"""A cart learns to keep a pole upright, by trying: a policy gradient, with 64 carts at a time as the rows of a
tensor."""
import math

import facula
from facula import nn
from facula.nn import functional as F

from common import Training, read_options

GRAVITY, POLE, TOTAL, HALF, FORCE, SECONDS = 9.8, 0.1, 1.1, 0.5, 10.0, 0.02


def push(carts, action):
    """Position, speed, angle and angular speed of each cart (count, 4), a fiftieth of a second after a push to the left
    (0) or to the right (1): a pole of 0.1 kg and 1 m stands on a cart of 1 kg, without friction."""
    place, speed, angle, turning = carts.unbind(1)
    sine, cosine = angle.sin(), angle.cos()
    pushed = ((2 * action - 1) * FORCE + POLE * HALF * turning.square() * sine) / TOTAL
    turn = (GRAVITY * sine - cosine * pushed) / (HALF * (4 / 3 - POLE / TOTAL * cosine.square()))
    gain = pushed - POLE * HALF / TOTAL * turn * cosine
    return facula.stack([place + SECONDS * speed, speed + SECONDS * gain, angle + SECONDS * turning,
                         turning + SECONDS * turn], 1)


def stands(carts):
    return (carts[:, 0].abs() < 2.4) & (carts[:, 2].abs() < math.radians(12))


@facula.no_grad()
def try_out(policy, count, most, device):
    """All carts try until they fall, or have stood for as long as is asked: what they saw, what they did, and who still
    stood then, each with the time as its first dim."""
    saw, did, stood = [], [], []
    carts = 0.1 * facula.rand(count, 4, device=device) - 0.05
    standing = facula.ones(count, dtype=facula.bool, device=device)
    while len(saw) < most and standing.any():
        action = facula.multinomial(F.softmax(policy(carts), -1), 1).squeeze(1)
        saw.append(carts)
        did.append(action)
        stood.append(standing)
        carts = push(carts, action)
        standing = standing & stands(carts)
    return facula.stack(saw), facula.stack(did), facula.stack(stood).float()


def advantages(stood, discount=0.99):
    """What each action brought is the time for which the cart stood from there on, where what comes later counts less;
    the mean of all tells which actions were better than others."""
    left = stood.flip(0).cumsum(0).flip(0)
    worth = (1 - discount ** left) / (1 - discount)
    mean = (worth * stood).sum() / stood.sum()
    spread = ((worth - mean).square() * stood).sum() / stood.sum()
    return (worth - mean) / (spread.sqrt() + 1e-6) * stood


def main():
    options = read_options(__doc__, steps=60, carts=64, most=500)
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2)).to(options.device)
    optimizer = facula.optim.Adam(policy.parameters(), lr=1e-2)
    training = Training(options, "cartpole")
    for _ in range(options.steps):
        saw, did, stood = try_out(policy, options.carts, options.most, options.device)
        optimizer.zero_grad()
        chosen = F.log_softmax(policy(saw), -1).gather(2, did.unsqueeze(2)).squeeze(2)
        (-(chosen * advantages(stood)).sum() / stood.sum()).backward()
        optimizer.step()
        # What a policy gradient makes small is the time for which a cart stands, negated.
        upright = stood.sum().item() / options.carts
        training.step(-upright)
    training.finish()
    print(f"the pole stands for {upright:.1f} steps of at most {options.most}")


if __name__ == "__main__":
    main()
