// A product of bfloat16 in tiles of 16 rows by 64 bytes, as AMX has them. It is written in terms of `Tiles`, whatever carries them out: the
// instructions (product.cpp) or a model of them (tests). To be included inside the pragma that says which instructions may be used; everything is
// in an unnamed namespace, so that no other file gets to call what was compiled for this one.
#include "cpu/amx/product.h"

#include <cstring>
#include <utility>

namespace facula::amx {
namespace {

constexpr int64_t kRows = 16;   // of a tile
constexpr int64_t kTerms = 32;  // of a tile: numbers of bfloat16 in 64 bytes
constexpr int64_t kTileNumbers = kRows * kTerms;
constexpr int64_t kBlock = 2 * kRows;  // rows and columns that are computed together: four tiles of sums
constexpr int64_t kBlockSums = kBlock * kBlock;

using Words = uint32_t __attribute__((vector_size(64)));
using Floats = float __attribute__((vector_size(64)));
using Halves = uint16_t __attribute__((vector_size(32)));

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t parts(int64_t size, int64_t part) { return (size + part - 1) / part; }

// The d x d squares beside the diagonal of two rows change places; d from 1 to 8 turns a matrix of 16 x 16.
template <int d, int... j>
inline void swap_squares(Words& a, Words& b, std::integer_sequence<int, j...>) {
  const Words above = __builtin_shufflevector(a, b, ((j & d) != 0 ? 16 + j - d : j)...);
  b = __builtin_shufflevector(a, b, ((j & d) != 0 ? 16 + j : j + d)...);
  a = above;
}

template <int d>
inline void swap_all(Words* rows) {
  for (int i = 0; i < 16; ++i)
    if ((i & d) == 0) swap_squares<d>(rows[i], rows[i + d], std::make_integer_sequence<int, 16>());
}

inline void turn(Words* rows) {
  swap_all<1>(rows);
  swap_all<2>(rows);
  swap_all<4>(rows);
  swap_all<8>(rows);
}

inline Floats widen(const uint16_t* from) {
  Halves halves;
  std::memcpy(&halves, from, sizeof(halves));
  const Words bits = __builtin_convertvector(halves, Words) << 16;
  Floats floats;
  std::memcpy(&floats, &bits, sizeof(floats));
  return floats;
}

// One operand: lines (rows of A, columns of B) of terms.
struct Lines {
  const uint16_t* data;
  int64_t line, term;  // strides

  const uint16_t* at(int64_t l, int64_t t) const { return data + l * line + t * term; }
};

// How a tile wants its terms: those of A in a row, those of B in pairs below each other.
enum class Form { Rows, Pairs };

inline void copy_terms(const Lines& from, Words* tile) {
  for (int64_t l = 0; l < kRows; ++l) std::memcpy(&tile[l], from.data + l * from.line, sizeof(Words));
}

template <int... j>
inline void interleave(const Halves& a, const Halves& b, Words& to, std::integer_sequence<int, j...>) {
  const auto both = __builtin_shufflevector(a, b, (j % 2 == 0 ? j / 2 : 16 + j / 2)...);
  std::memcpy(&to, &both, sizeof(to));
}

// A pair of terms of 16 lines that lie beside each other.
inline void copy_pair(const Lines& from, int64_t line, int64_t pair, Words& to) {
  Halves first, second;
  std::memcpy(&first, from.at(line, 2 * pair), sizeof(first));
  std::memcpy(&second, from.at(line, 2 * pair + 1), sizeof(second));
  interleave(first, second, to, std::make_integer_sequence<int, 32>());
}

inline void copy_pairs(const Lines& from, Words* tile) {
  for (int64_t p = 0; p < kRows; ++p) copy_pair(from, 0, p, tile[p]);
}

// Two tiles at a time: 32 lines are 64 bytes, what a cache fetches.
inline void copy_pairs_twice(const Lines& from, Words* tile, Words* second) {
  for (int64_t p = 0; p < kRows; ++p) {
    copy_pair(from, 0, p, tile[p]);
    copy_pair(from, kRows, p, second[p]);
  }
}

// Lays out one tile of at most 16 lines and 32 terms. Whatever is missing is zero: it multiplies zeros of the other side, so that no NaN
// or infinity of a neighbour gets into a sum.
template <Form form>
inline void lay_tile(const Lines& from, int64_t lines, int64_t terms, uint16_t* to) {
  auto* const tile = reinterpret_cast<Words*>(to);
  const bool whole = lines >= kRows && terms >= kTerms;
  if (whole && from.line == 1 && from.term != 1) {
    if constexpr (form == Form::Pairs) return copy_pairs(from, tile);
    Words turned[16];
    copy_pairs(from, turned);
    turn(turned);
    std::memcpy(tile, turned, sizeof(turned));
    return;
  }
  if (whole && from.term == 1) {
    if constexpr (form == Form::Rows) return copy_terms(from, tile);
    Words turned[16];
    copy_terms(from, turned);
    turn(turned);
    std::memcpy(tile, turned, sizeof(turned));
    return;
  }
  std::memset(to, 0, kTileNumbers * sizeof(uint16_t));
  for (int64_t l = 0; l < least(lines, kRows); ++l)
    for (int64_t t = 0; t < least(terms, kTerms); ++t)
      to[form == Form::Rows ? l * kTerms + t : t / 2 * kTerms + 2 * l + t % 2] = *from.at(l, t);
}

// Lays out lines by terms, tile by tile: all tiles of 16 lines one behind the other, then those of the next.
template <Form form>
struct Layout {
  Lines from;
  int64_t lines, terms;
  uint16_t* to;
  int64_t down = parts(lines, kRows), across = parts(terms, kTerms), next = 0;

  bool done() const { return next == down * across; }
  void step() {
    const bool by_lines = from.term == 1;  // in the order of memory
    if constexpr (form == Form::Pairs) {
      const int64_t t = next / 2;
      if (!by_lines && from.line == 1 && lines == kBlock && terms - t * kTerms >= kTerms) {
        const auto tile = [&](int64_t l) { return reinterpret_cast<Words*>(to + (l * across + t) * kTileNumbers); };
        copy_pairs_twice({from.at(0, t * kTerms), 1, from.term}, tile(0), tile(1));
        next += 2;
        return;
      }
    }
    const int64_t l = by_lines ? next / across : next % down, t = by_lines ? next % across : next / down;
    lay_tile<form>({from.at(l * kRows, t * kTerms), from.line, from.term}, lines - l * kRows, terms - t * kTerms,
                   to + (l * across + t) * kTileNumbers);
    ++next;
  }
  void all() {
    while (!done()) step();
  }
};

// What the vector units do while tiles are multiplied: sums of the block before go to C, and the next columns of B are laid out.
template <class Tiles>
class Chores {
 public:
  explicit Chores(const Product& product) : p_(product) {}

  void step() {
    // Sums that have just been stored cannot be loaded for a while.
    if (++steps_ > 4) {
      finish_row();
      finish_row();
      finish_row();
    }
    if (!columns_.done()) columns_.step();
  }
  void lay_out(const Layout<Form::Pairs>& columns) { columns_ = columns; }
  void end_layout() { columns_.all(); }
  // A block of sums is ready; it stays where it is until all chores are done or the next is ready.
  void finish(const float* sums, int64_t row, int64_t column) {
    end_sums();
    sums_ = sums;
    steps_ = 0;
    to_ = p_.c + row * p_.c_row + column;
    rows_ = least(kBlock, p_.m - row);
    bytes_ = static_cast<size_t>(least(kBlock, p_.n - column)) * sizeof(uint16_t);
  }
  void end_sums() {
    while (rows_ > 0) finish_row();
  }

 private:
  void finish_row() {
    if (rows_ == 0) return;
    --rows_;
    Floats low, high;
    std::memcpy(&low, sums_, sizeof(low));
    std::memcpy(&high, sums_ + kRows, sizeof(high));
    low *= p_.alpha;
    high *= p_.alpha;
    if (p_.beta != 0) {
      uint16_t old[kBlock] = {};
      std::memcpy(old, to_, bytes_);
      low += p_.beta * widen(old);
      high += p_.beta * widen(old + kRows);
    }
    if (bytes_ == kBlock * sizeof(uint16_t)) {
      Tiles::narrow(low, high, to_);
    } else {
      uint16_t all[kBlock];
      Tiles::narrow(low, high, all);
      std::memcpy(to_, all, bytes_);
    }
    sums_ += kBlock;
    to_ += p_.c_row;
  }

  const Product& p_;
  Layout<Form::Pairs> columns_ = {{}, 0, 0, nullptr};
  const float* sums_ = nullptr;
  uint16_t* to_ = nullptr;
  int64_t rows_ = 0, steps_ = 0;
  size_t bytes_ = 0;
};

// Tiles of one operand on the way along its terms.
struct Walk {
  const uint16_t* data;
  int64_t row_bytes;  // from row to row of a tile
  int64_t step;       // from tile to tile, in numbers
};

// Adds `count` tiles of terms to the sums in tiles 0 to 3. A has tiles 4 and 5, B 6 and 7; with one of rows or columns the second is left out.
template <int rows, int columns, class Tiles>
inline void add_terms(Tiles& tiles, Chores<Tiles>& chores, Walk a0, Walk a1, const uint16_t* b0, const uint16_t* b1,
                      int64_t count) {
  for (int64_t t = 0; t < count; ++t) {
    tiles.template load<6>(b0 + t * kTileNumbers, 64);
    tiles.template load<4>(a0.data + t * a0.step, a0.row_bytes);
    tiles.template dot<0, 4, 6>();
    if constexpr (columns == 2) {
      tiles.template load<7>(b1 + t * kTileNumbers, 64);
      tiles.template dot<1, 4, 7>();
    }
    if constexpr (rows == 2) {
      tiles.template load<5>(a1.data + t * a1.step, a1.row_bytes);
      tiles.template dot<2, 5, 6>();
      if constexpr (columns == 2) tiles.template dot<3, 5, 7>();
    }
    chores.step();
  }
}

// The sums of one block over a stretch of the terms. A is read where it is as far as whole tiles go, and laid out from there on.
struct Block {
  int64_t in_place, laid_out;  // tiles of terms
  Walk a[2], a_laid_out[2];
  const uint16_t* b[2];
  bool first, last;  // stretch: begins with zero, ends in C
  int64_t row, column;
  float* sums;  // of four tiles
};

template <int rows, int columns, class Tiles>
inline void compute(Tiles& tiles, Chores<Tiles>& chores, const Block& k) {
  constexpr int64_t kAcross = kBlock * static_cast<int64_t>(sizeof(float)), kDown = kRows * kBlock;
  if (k.first) {
    tiles.template zero<0>();
    if constexpr (columns == 2) tiles.template zero<1>();
    if constexpr (rows == 2) tiles.template zero<2>();
    if constexpr (rows == 2 && columns == 2) tiles.template zero<3>();
  } else {
    tiles.template load<0>(k.sums, kAcross);
    if constexpr (columns == 2) tiles.template load<1>(k.sums + kRows, kAcross);
    if constexpr (rows == 2) tiles.template load<2>(k.sums + kDown, kAcross);
    if constexpr (rows == 2 && columns == 2) tiles.template load<3>(k.sums + kDown + kRows, kAcross);
  }
  const int64_t skip = k.in_place * kTileNumbers;
  add_terms<rows, columns>(tiles, chores, k.a[0], k.a[1], k.b[0], k.b[1], k.in_place);
  add_terms<rows, columns>(tiles, chores, k.a_laid_out[0], k.a_laid_out[1], k.b[0] + skip, k.b[1] + skip, k.laid_out);
  tiles.template store<0>(k.sums, kAcross);
  if constexpr (columns == 2) tiles.template store<1>(k.sums + kRows, kAcross);
  if constexpr (rows == 2) tiles.template store<2>(k.sums + kDown, kAcross);
  if constexpr (rows == 2 && columns == 2) tiles.template store<3>(k.sums + kDown + kRows, kAcross);
  if (k.last) chores.finish(k.sums, k.row, k.column);
}

template <class Tiles>
inline void compute_any(Tiles& tiles, Chores<Tiles>& chores, const Block& k, bool two_rows, bool two_columns) {
  if (two_rows && two_columns) return compute<2, 2>(tiles, chores, k);
  if (two_rows) return compute<2, 1>(tiles, chores, k);
  if (two_columns) return compute<1, 2>(tiles, chores, k);
  compute<1, 1>(tiles, chores, k);
}

// A part of the product: what of it is in the second-level cache at a time.
struct Part {
  int64_t row, rows, column, columns, term, terms;
};

// The blocks of one part. `room` is that of A, B and the sums.
template <class Tiles>
void compute_part(Tiles& tiles, const Product& p, const Part& part, uint16_t* room) {
  uint16_t* const room_b = room + kPartRows * kPartTerms;
  auto* const room_sums = reinterpret_cast<float*>(room_b + 2 * kBlock * kPartTerms);
  const Lines a = {p.a + part.row * p.a_row + part.term * p.a_term, p.a_row, p.a_term};
  const Lines b = {p.b + part.column * p.b_column + part.term * p.b_term, p.b_column, p.b_term};
  const int64_t tiles_of_terms = parts(part.terms, kTerms);
  const int64_t whole = p.a_term == 1 ? part.terms / kTerms : 0;
  const auto place_of_b = [&](int64_t column) { return room_b + column / kBlock % 2 * kBlock * kPartTerms; };
  const auto columns_of_b = [&](int64_t column) {
    return Layout<Form::Pairs>{
        {b.at(column, 0), b.line, b.term}, least(kBlock, part.columns - column), part.terms, place_of_b(column)};
  };
  columns_of_b(0).all();
  Chores<Tiles> chores(p);
  Block k;
  k.first = part.term == 0;
  k.last = part.term + part.terms == p.k;
  int64_t count = 0;
  for (int64_t column = 0; column < part.columns; column += kBlock) {
    const bool two_columns = part.columns - column > kRows;
    if (column + kBlock < part.columns) chores.lay_out(columns_of_b(column + kBlock));
    for (int i = 0; i < 2; ++i) k.b[i] = place_of_b(column) + i * tiles_of_terms * kTileNumbers;
    k.column = part.column + column;
    for (int64_t row = 0; row < part.rows; row += kBlock) {
      const bool two_rows = part.rows - row > kRows;
      k.in_place = part.rows - row >= (two_rows ? kBlock : kRows) ? whole : 0;
      k.laid_out = tiles_of_terms - k.in_place;
      uint16_t* const room_a = room + row * kPartTerms;
      if (column == 0 && k.laid_out > 0)
        Layout<Form::Rows>{{a.at(row, k.in_place * kTerms), a.line, a.term},
                           least(kBlock, part.rows - row),
                           part.terms - k.in_place * kTerms,
                           room_a}
            .all();
      for (int i = 0; i < 2; ++i) {
        k.a[i] = {a.at(row + i * kRows, 0), a.line * static_cast<int64_t>(sizeof(uint16_t)), kTerms};
        k.a_laid_out[i] = {room_a + i * k.laid_out * kTileNumbers, 64, kTileNumbers};
      }
      k.row = part.row + row;
      // Where there is but one stretch of terms, all blocks take turns with two places.
      const int64_t place = k.first && k.last ? count++ % 2 : column / kBlock * (kPartRows / kBlock) + row / kBlock;
      k.sums = room_sums + place * kBlockSums;
      compute_any(tiles, chores, k, two_rows, two_columns);
    }
    chores.end_layout();
  }
  chores.end_sums();
}

template <class Tiles>
void multiply_with(Tiles& tiles, const Product& p, uint16_t* room) {
  for (int64_t column = 0; column < p.n; column += kPartColumns)
    for (int64_t row = 0; row < p.m; row += kPartRows)
      for (int64_t term = 0; term < p.k; term += kPartTerms) {
        const Part part = {row,  least(kPartRows, p.m - row),  column, least(kPartColumns, p.n - column),
                           term, least(kPartTerms, p.k - term)};
        compute_part(tiles, p, part, room);
      }
}

}  // namespace
}  // namespace facula::amx
