// Forwards to Facula.
#pragma once

#include <torch/torch.h>
