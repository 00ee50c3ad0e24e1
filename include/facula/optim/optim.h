// Optimizers and schedulers.
#pragma once

#include <facula/optim/adagrad.h>
#include <facula/optim/adam.h>
#include <facula/optim/lbfgs.h>
#include <facula/optim/optimizer.h>
#include <facula/optim/rmsprop.h>
#include <facula/optim/schedulers.h>
#include <facula/optim/sgd.h>
