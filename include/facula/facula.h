// The whole public API but data loading (<facula/data.h>) and what only GPUs have (<facula/cuda.h>).
#pragma once

#include <facula/amp.h>
#include <facula/autograd/autograd.h>
#include <facula/autograd/checkpoint.h>
#include <facula/autograd/forward.h>
#include <facula/autograd/function.h>
#include <facula/autograd/gradcheck.h>
#include <facula/complex_tensor.h>
#include <facula/from_data.h>
#include <facula/func.h>
#include <facula/fused.h>
#include <facula/generated/functions.h>
#include <facula/indexing.h>
#include <facula/nn/nn.h>
#include <facula/nn/summary.h>
#include <facula/optim/optim.h>
#include <facula/plot.h>
#include <facula/progress.h>
#include <facula/result_type.h>
#include <facula/safetensors.h>
#include <facula/serialize.h>
#include <facula/tensor.h>
#include <facula/tensorboard.h>
#include <facula/threads.h>
#include <facula/version.h>
