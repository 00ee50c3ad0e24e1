// The seam to oneDNN's matrix products. Operands run along rows or along columns.
#pragma once

#include "cpu/matmul.h"

namespace facula {

void onednn_matmul_f32(const MatmulArgs& args);
// False where alpha is not 1 or this machine's oneDNN has no bfloat16 product. Not to be called where there are tile registers (AMX): oneDNN's
// ways with them are not to be trusted. 63 terms trap (2.6, 2.7), and where the terms do not fill a tile, a NaN reaches other rows (3.14).
bool onednn_matmul_bf16(const MatmulArgs& args);
void onednn_matmul_int8(const MatmulArgs& args);
// "oneDNN 2.6.3", for reports.
const char* onednn_version();

}  // namespace facula
