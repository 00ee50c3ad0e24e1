"""Optimizers: they change parameters by their gradients.

    optimizer = facula.optim.AdamW(net.parameters(), lr=3e-4)
    optimizer.zero_grad()
    loss_of(net, batch).backward()
    optimizer.step()

A step is one call into C++ for each group of parameters, and there one pass over the memory of all of them.
"""
from . import lr_scheduler
from .adagrad import Adagrad
from .adam import Adam, AdamW
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .rmsprop import RMSprop
from .sgd import SGD

__all__ = ["Adagrad", "Adam", "AdamW", "LBFGS", "Optimizer", "RMSprop", "SGD", "lr_scheduler"]
