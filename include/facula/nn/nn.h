// Networks: modules, their holders and containers, functional forms, initial values, and calls with other parameters.
#pragma once

#include <facula/nn/cloneable.h>
#include <facula/nn/functional_call.h>
#include <facula/nn/module.h>
#include <facula/nn/module_holder.h>
#include <facula/nn/modules.h>
#include <facula/nn/ordered_dict.h>
