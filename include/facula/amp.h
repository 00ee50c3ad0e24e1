// Mixed precision.
#pragma once

#include <facula/amp/autocast.h>
#include <facula/amp/grad_scaler.h>
