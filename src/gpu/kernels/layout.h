// What kernels of several layouts share: how arrays run along the innermost dim, division by numbers that the host knows, registers
// for the elements of a program's loads and stores.
//
// Arrays are numbered loads first, then stores. Dims are numbered from the innermost; strides are in elements.
#pragma once

#include "gpu/kernels/program.h"

namespace facula {

enum class Access {
  Next,      // neighbours in memory
  Constant,  // the same element
  Apart,     // any other stride
  Turned     // neighbours along dim 1 instead (kernels/transpose.h)
};

// n / divisor for 0 <= n < 2^(bits - 1), by a multiplication: the host has worked out `magic` and `shift`.
template <class Index>
struct Divider;
template <>
struct Divider<int32_t> {
  uint32_t divisor, magic, shift;
  FACULA_DEVICE int32_t quotient(int32_t n) const {
    const uint32_t u = static_cast<uint32_t>(n);
    return static_cast<int32_t>((multiply_high(u, magic) + u) >> shift);
  }
};
template <>
struct Divider<int64_t> {
  uint64_t divisor, magic, shift;
  FACULA_DEVICE int64_t quotient(int64_t n) const {
    const uint64_t u = static_cast<uint64_t>(n);
    return static_cast<int64_t>((multiply_high(u, magic) + u) >> shift);
  }
};
template <class Index>
FACULA_DEVICE Index divide(Index& n, const Divider<Index>& d) {  // the rest; n becomes the quotient
  const Index q = d.quotient(n), rest = n - q * static_cast<Index>(d.divisor);
  n = q;
  return rest;
}

template <class P, int k>
struct LoadMemory {
  using type = Memory<P::kLoadTypes[k]>;
};
template <class P, int k>
struct StoreMemory {
  using type = Memory<P::kStoreTypes[k]>;
};

// One Item<k> for each k of [k, kEnd): get<k>().
template <template <int> class Item, int k, int kEnd>
struct Each {
  Item<k> item;
  Each<Item, k + 1, kEnd> rest;
  template <int j>
  FACULA_DEVICE auto& get() {
    if constexpr (j == k) return item;
    else return rest.template get<j>();
  }
  template <int j>
  FACULA_DEVICE const auto& get() const {
    if constexpr (j == k) return item;
    else return rest.template get<j>();
  }
};
template <template <int> class Item, int kEnd>
struct Each<Item, kEnd, kEnd> {};

// One pack for each load (or store) of a program: get<k>(), of Sizes::of(k) elements.
template <class P, template <class, int> class MemoryOf, class Sizes, int k, int kEnd>
struct Packs {
  Pack<typename MemoryOf<P, k>::type::Bits, Sizes::of(k)> pack;
  Packs<P, MemoryOf, Sizes, k + 1, kEnd> rest;
  template <int j>
  FACULA_DEVICE auto& get() {
    if constexpr (j == k) return pack;
    else return rest.template get<j>();
  }
  template <int j>
  FACULA_DEVICE const auto& get() const {
    if constexpr (j == k) return pack;
    else return rest.template get<j>();
  }
};
template <class P, template <class, int> class MemoryOf, class Sizes, int kEnd>
struct Packs<P, MemoryOf, Sizes, kEnd, kEnd> {};

template <int N>
struct EqualSizes {
  static FACULA_DEVICE constexpr int of(int) { return N; }
};
template <class P, int N>
using StorePacks = Packs<P, StoreMemory, EqualSizes<N>, 0, P::kStores>;

// Where a program puts element `e` of its stores, each converted for itself.
template <class P, int N>
struct StoreElement {
  StorePacks<P, N>& packs;
  int e;
  template <int k, class T>
  FACULA_DEVICE void store(T value) const {
    packs.template get<k>().at[e] = StoreMemory<P, k>::type::store(value);
  }
};

// N neighbours of every load, as memory holds them and as values; one element where an array is constant along dim 0.
template <class P, class L, int N>
struct Elements {
  struct Sizes {
    static FACULA_DEVICE constexpr int of(int k) { return L::kAccess[k] == Access::Constant ? 1 : N; }
  };
  template <int k>
  struct LoadValue {
    typename LoadMemory<P, k>::type::Compute at[Sizes::of(k)];
  };
  template <int k>
  struct StoreValue {
    typename ValueOf<P::kStoreValues[k]>::type at[N];
  };
  using LoadPacks = Packs<P, LoadMemory, Sizes, 0, P::kLoads>;
  using LoadValues = Each<LoadValue, 0, P::kLoads>;
  using StoreValues = Each<StoreValue, 0, P::kStores>;

  // What a program sees of element e.
  struct In {
    const LoadValues& values;
    int e;
    template <int k>
    FACULA_DEVICE auto load() const {
      return values.template get<k>().at[L::kAccess[k] == Access::Constant ? 0 : e];
    }
  };
  struct Out {
    StoreValues& values;
    int e;
    template <int k, class T>
    FACULA_DEVICE void store(T value) const {
      values.template get<k>().at[e] = value;
    }
  };

  // Runs the program on N elements.
  static FACULA_DEVICE void compute(const LoadPacks& packs, const typename P::Params& params, const Faults& faults,
                                    StoreValues& results) {
    LoadValues values;
    if constexpr (P::kLoads > 0)
      for_each_index<P::kLoads>([&](auto index) {
        constexpr int k = decltype(index)::value;
        unpack<typename LoadMemory<P, k>::type>(packs.template get<k>(), values.template get<k>().at);
      });
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) {
      Out out{results, e};
      P::run(In{values, e}, params, faults, out);
    }
  }

  // Writes store k, N elements from `to` on, `stride` apart where they are not neighbours.
  template <int k, class Index>
  static FACULA_DEVICE void write(const StoreValues& results, typename StoreMemory<P, k>::type::Bits* to,
                                  Index stride) {
    Pack<typename StoreMemory<P, k>::type::Bits, N> pack;
    pack_values<typename StoreMemory<P, k>::type>(results.template get<k>().at, pack);
    if constexpr (L::kAccess[P::kLoads + k] == Access::Apart) {
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) to[e * stride] = pack.at[e];
    } else {
      pack.write(to);
    }
  }
  // Reads load k alike.
  template <int k, class Index>
  static FACULA_DEVICE void read(LoadPacks& packs, const typename LoadMemory<P, k>::type::Bits* from, Index stride) {
    auto& pack = packs.template get<k>();
    if constexpr (L::kAccess[k] == Access::Apart) {
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) pack.at[e] = from[e * stride];
    } else {
      pack.read(from);
    }
  }
};

}  // namespace facula
