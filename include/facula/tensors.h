// Tensors, ops and gradients: the public API without networks, files and what else is built of these. The library itself includes this, so that a change of a
// module does not compile every op again.
#pragma once

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
#include <facula/result_type.h>
#include <facula/tensor.h>
#include <facula/threads.h>
