// The whole public API.
#pragma once

#include <facula/complex_tensor.h>
#include <facula/from_data.h>
#include <facula/fused.h>
#include <facula/generated/functions.h>
#include <facula/indexing.h>
#include <facula/tensor.h>
#include <facula/threads.h>
