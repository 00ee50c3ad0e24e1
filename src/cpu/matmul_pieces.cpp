#include "cpu/matmul_pieces.h"

#include "cpu/parallel.h"

namespace facula {
namespace {

MatrixArg part_of(const MatrixArg& m, int64_t batch, int64_t row, int64_t column) {
  MatrixArg part = m;
  part.data = static_cast<uint16_t*>(m.data) + m.offset(batch) + row * m.row_stride + column * m.col_stride;
  part.batch_offsets = nullptr;
  return part;
}

}  // namespace

void over_pieces(const MatmulArgs& args, int64_t column_cost, FunctionRef<void(const MatmulArgs&)> one) {
  constexpr int64_t kPieceWork = 128 * 128 * 128;  // multiplications worth a thread
  const int64_t work = std::max<int64_t>(1, args.m * args.n * args.k);
  const int64_t spare = in_parallel_region() ? 1 : ceil_div(get_num_threads(), args.batch);
  const MatmulPieces pieces(args.m, args.n, std::clamp<int64_t>(work / kPieceWork, 1, spare), 32, 64, column_cost);
  const int64_t grain = std::max<int64_t>(1, kPieceWork / work);
  parallel_for(0, args.batch * pieces.count, grain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t batch = i / pieces.count, row = pieces.row(i % pieces.count),
                    column = pieces.column(i % pieces.count);
      MatmulArgs piece = args;
      piece.batch = 1;
      piece.m = std::min(pieces.rows, args.m - row);
      piece.n = std::min(pieces.columns, args.n - column);
      piece.a = part_of(args.a, batch, row, 0);
      piece.b = part_of(args.b, batch, 0, column);
      piece.c = part_of(args.c, batch, row, column);
      one(piece);
    }
  });
}

}  // namespace facula
