// The seam to oneDNN's matrix products. Operands run along rows or along columns.
#pragma once

#include "cpu/matmul.h"

namespace facula {

void onednn_matmul_f32(const MatmulArgs& args);
// Whether oneDNN multiplies bfloat16 with the tile registers of AMX.
bool onednn_uses_tiles();
// False where alpha is not 1 or this machine's oneDNN has no bfloat16 product. Tiles take whole ones only: see by_pieces.
bool onednn_matmul_bf16(const MatmulArgs& args, bool whole_tiles = onednn_uses_tiles());
void onednn_matmul_int8(const MatmulArgs& args);
// "oneDNN 2.6.3", for reports.
const char* onednn_version();

}  // namespace facula
