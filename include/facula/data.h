// Datasets, samplers, transforms and loaders.
#pragma once

#include <facula/data/data_loader.h>
#include <facula/data/datasets.h>
#include <facula/data/example.h>
#include <facula/data/samplers.h>
#include <facula/data/transforms.h>
