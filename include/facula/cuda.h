// GPUs: devices, streams, events, graphs, memory, products, random numbers, ranges and kernels of the user's own.
#pragma once

#include <facula/cuda/device.h>
#include <facula/cuda/event.h>
#include <facula/cuda/graph.h>
#include <facula/cuda/kernel.h>
#include <facula/cuda/matmul.h>
#include <facula/cuda/memory.h>
#include <facula/cuda/monitor.h>
#include <facula/cuda/random.h>
#include <facula/cuda/ranges.h>
#include <facula/cuda/stream.h>
