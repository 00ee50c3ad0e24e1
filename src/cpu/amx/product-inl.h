// A product of bfloat16 in tiles of 16 rows by 64 bytes, as AMX has them. It is written in terms of `Tiles`, whatever carries them out: the
// instructions (product.cpp) or a model of them (tests). To be included inside the pragma that says which instructions may be used; everything is
// in an unnamed namespace, so that no other file gets to call what was compiled for this one.
#pragma once

#include "cpu/amx/product.h"

#include <cstring>
#include <utility>

namespace facula::amx {
namespace {

inline constexpr int64_t kRows = 16;   // of a tile
inline constexpr int64_t kTerms = 32;  // of a tile: numbers of bfloat16 in 64 bytes
inline constexpr int64_t kTileNumbers = kRows * kTerms;
inline constexpr int64_t kBlock = 2 * kRows;  // rows and columns that are computed together: four tiles of sums
inline constexpr int64_t kBlockSums = kBlock * kBlock;

using Words = uint32_t __attribute__((vector_size(64)));
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

inline float widen(uint16_t from) {
  const uint32_t bits = static_cast<uint32_t>(from) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
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

// Lays out lines by terms: all tiles of 16 lines one behind the other, then those of the next.
template <Form form>
void lay_out(const Lines& from, int64_t lines, int64_t terms, uint16_t* to) {
  const int64_t down = parts(lines, kRows), across = parts(terms, kTerms);
  const auto part = [&](int64_t l, int64_t t) { return Lines{from.at(l * kRows, t * kTerms), from.line, from.term}; };
  const auto tile = [&](int64_t l, int64_t t) { return to + (l * across + t) * kTileNumbers; };
  if (from.term == 1) {  // in the order of memory
    for (int64_t l = 0; l < down; ++l)
      for (int64_t t = 0; t < across; ++t)
        lay_tile<form>(part(l, t), lines - l * kRows, terms - t * kTerms, tile(l, t));
    return;
  }
  for (int64_t t = 0; t < across; ++t)
    for (int64_t l = 0; l < down; ++l) {
      if (form == Form::Pairs && from.line == 1 && lines - l * kRows >= kBlock && terms - t * kTerms >= kTerms) {
        copy_pairs_twice(part(l, t), reinterpret_cast<Words*>(tile(l, t)), reinterpret_cast<Words*>(tile(l + 1, t)));
        ++l;
        continue;
      }
      lay_tile<form>(part(l, t), lines - l * kRows, terms - t * kTerms, tile(l, t));
    }
}

// Sums on their way to C. Those of a block are written when the next one is ready: what tiles have just stored cannot be loaded for a while.
template <class Tiles>
class Finish {
 public:
  explicit Finish(const Product& product) : p_(product) {}

  // A block of sums is ready; it stays where it is until `end`, or the next is.
  void next(const float* sums, int64_t row, int64_t column) {
    end();
    sums_ = sums;
    to_ = p_.c + row * p_.c_row + column;
    rows_ = least(kBlock, p_.m - row);
    bytes_ = static_cast<size_t>(least(kBlock, p_.n - column)) * sizeof(uint16_t);
  }
  void end() {
    for (int64_t r = 0; r < rows_; ++r) finish_row(sums_ + r * kBlock, to_ + r * p_.c_row);
    rows_ = 0;
  }

 private:
  void finish_row(const float* sums, uint16_t* to) const {
    if (bytes_ == kBlock * sizeof(uint16_t) && p_.alpha == 1 && p_.beta == 0) return Tiles::narrow(sums, to);
    float values[kBlock];
    uint16_t row[kBlock] = {};
    if (p_.beta != 0) std::memcpy(row, to, bytes_);
    for (int64_t i = 0; i < kBlock; ++i) {
      values[i] = p_.alpha * sums[i];
      if (p_.beta != 0) values[i] += p_.beta * widen(row[i]);
    }
    Tiles::narrow(values, row);
    std::memcpy(to, row, bytes_);
  }

  const Product& p_;
  const float* sums_ = nullptr;
  uint16_t* to_ = nullptr;
  int64_t rows_ = 0;
  size_t bytes_ = 0;
};

// Tiles of one operand on the way along its terms.
struct Walk {
  const uint16_t* data = nullptr;
  int64_t row_bytes = 0;  // from row to row of a tile
  int64_t step = 0;       // from tile to tile, in numbers
};

// Adds `count` tiles of terms to the sums in tiles 0 to 3. A has tiles 4 and 5, B 6 and 7; with one of rows or columns the second is left out.
template <int rows, int columns, class Tiles>
inline void add_terms(Tiles& tiles, Walk a0, Walk a1, const uint16_t* b0, const uint16_t* b1, int64_t count) {
  for (int64_t t = 0; t < count; ++t) {
    tiles.template load<4>(a0.data + t * a0.step, a0.row_bytes);
    tiles.template load<6>(b0 + t * kTileNumbers, 64);
    if constexpr (rows == 2) tiles.template load<5>(a1.data + t * a1.step, a1.row_bytes);
    tiles.template dot<0, 4, 6>();
    if constexpr (columns == 2) tiles.template load<7>(b1 + t * kTileNumbers, 64);
    if constexpr (rows == 2) tiles.template dot<2, 5, 6>();
    if constexpr (columns == 2) tiles.template dot<1, 4, 7>();
    if constexpr (rows == 2 && columns == 2) tiles.template dot<3, 5, 7>();
  }
}

// The sums of one block over a stretch of the terms. A is read where it is as far as whole tiles go, and laid out from there on.
struct Block {
  int64_t in_place = 0, laid_out = 0;  // tiles of terms
  Walk a[2], a_laid_out[2];
  const uint16_t* b[2] = {};
  bool first = false, last = false;  // stretch: begins with zero, ends in C
  int64_t row = 0, column = 0;
  float* sums = nullptr;  // of four tiles
};

template <int rows, int columns, class Tiles>
inline void compute(Tiles& tiles, Finish<Tiles>& finish, const Block& k) {
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
  add_terms<rows, columns>(tiles, k.a[0], k.a[1], k.b[0], k.b[1], k.in_place);
  add_terms<rows, columns>(tiles, k.a_laid_out[0], k.a_laid_out[1], k.b[0] + skip, k.b[1] + skip, k.laid_out);
  tiles.template store<0>(k.sums, kAcross);
  if constexpr (columns == 2) tiles.template store<1>(k.sums + kRows, kAcross);
  if constexpr (rows == 2) tiles.template store<2>(k.sums + kDown, kAcross);
  if constexpr (rows == 2 && columns == 2) tiles.template store<3>(k.sums + kDown + kRows, kAcross);
  if (k.last) finish.next(k.sums, k.row, k.column);
}

template <class Tiles>
inline void compute_any(Tiles& tiles, Finish<Tiles>& finish, const Block& k, bool two_rows, bool two_columns) {
  if (two_rows && two_columns) return compute<2, 2>(tiles, finish, k);
  if (two_rows) return compute<2, 1>(tiles, finish, k);
  if (two_columns) return compute<1, 2>(tiles, finish, k);
  compute<1, 1>(tiles, finish, k);
}

// A part of the product: what of it is in the second-level cache at a time.
struct Part {
  int64_t row, rows, column, columns, term, terms;
};

// The blocks of one part. `room` is that of A, B and the sums.
template <class Tiles>
void compute_part(Tiles& tiles, const Product& p, const Part& part, uint16_t* room) {
  uint16_t* const room_b = room + kBlock * kPartTerms;
  auto* const room_sums = reinterpret_cast<float*>(room_b + kPartColumns * kPartTerms);
  const Lines a = {p.a + part.row * p.a_row + part.term * p.a_term, p.a_row, p.a_term};
  const Lines b = {p.b + part.column * p.b_column + part.term * p.b_term, p.b_column, p.b_term};
  const int64_t tiles_of_terms = parts(part.terms, kTerms);
  lay_out<Form::Pairs>(b, part.columns, part.terms, room_b);
  Finish<Tiles> finish(p);
  Block k;
  k.first = part.term == 0;
  k.last = part.term + part.terms == p.k;
  int64_t count = 0;
  for (int64_t row = 0; row < part.rows; row += kBlock) {
    const int64_t rows = least(kBlock, part.rows - row);
    const bool two_rows = rows > kRows;
    k.in_place = p.a_term == 1 && rows % kRows == 0 ? part.terms / kTerms : 0;
    k.laid_out = tiles_of_terms - k.in_place;
    if (k.laid_out > 0)
      lay_out<Form::Rows>({a.at(row, k.in_place * kTerms), a.line, a.term}, rows, part.terms - k.in_place * kTerms,
                          room);
    for (int i = 0; i < (two_rows ? 2 : 1); ++i) {
      if (k.in_place > 0) k.a[i] = {a.at(row + i * kRows, 0), a.line * static_cast<int64_t>(sizeof(uint16_t)), kTerms};
      k.a_laid_out[i] = {room + i * k.laid_out * kTileNumbers, 64, kTileNumbers};
    }
    k.row = part.row + row;
    for (int64_t column = 0; column < part.columns; column += kBlock) {
      for (int i = 0; i < 2; ++i) k.b[i] = room_b + (column / kRows + i) * tiles_of_terms * kTileNumbers;
      k.column = part.column + column;
      // Where there is but one stretch of terms, all blocks take turns with two places.
      const int64_t place = k.first && k.last ? count++ % 2 : row / kBlock * (kPartColumns / kBlock) + column / kBlock;
      k.sums = room_sums + place * kBlockSums;
      compute_any(tiles, finish, k, two_rows, part.columns - column > kRows);
    }
  }
  finish.end();
}

template <class Tiles>
void multiply_with(Tiles& tiles, const Product& p, uint16_t* room) {
  const bool one_stretch = p.k <= kPartTerms;
  const int64_t most_rows = one_stretch ? p.m : kPartRows;  // those whose sums have to be kept
  for (int64_t column = 0; column < p.n; column += kPartColumns)
    for (int64_t row = 0; row < p.m; row += most_rows)
      for (int64_t term = 0; term < p.k; term += kPartTerms) {
        const Part part = {row,  least(most_rows, p.m - row),  column, least(kPartColumns, p.n - column),
                           term, least(kPartTerms, p.k - term)};
        compute_part(tiles, p, part, room);
      }
}

}  // namespace
}  // namespace facula::amx
