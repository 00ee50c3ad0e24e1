#pragma once

#include <utility>

namespace facula {

// Sorts the few dims of a tensor: stable, and without memory from the heap, which std::stable_sort asks for.
template <class It, class Less>
void sort_few(It first, It last, Less less) {
  if (first == last) return;
  for (It i = first + 1; i < last; ++i) {
    auto moved = std::move(*i);
    It place = i;
    for (; place != first && less(moved, *(place - 1)); --place) *place = std::move(*(place - 1));
    *place = std::move(moved);
  }
}

}  // namespace facula
