// All modules and functional forms, and what containers hold them in. `facula::nn::functional` is known as `F` in programs:
// `namespace F = facula::nn::functional;`.
#pragma once

#include <facula/nn/any_module.h>
#include <facula/nn/containers.h>
#include <facula/nn/functional.h>
#include <facula/nn/generated/modules.h>
#include <facula/nn/init.h>
#include <facula/nn/transformer.h>
#include <facula/nn/utils.h>
