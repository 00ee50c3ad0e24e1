// Names of dtypes and the promotion lattice.
#include <facula/core/dtype.h>

#include <ostream>

#include <facula/core/error.h>

#include "core/dispatch.h"

namespace facula {

const char* toString(ScalarType t) {
  switch (t) {
#define FACULA_CASE(cpp, name, text) \
  case ScalarType::name: return #name;
    FACULA_FORALL_SCALAR_TYPES(FACULA_CASE)
#undef FACULA_CASE
    default: return "Undefined";
  }
}

const char* dtype_name(ScalarType t) {
  switch (t) {
#define FACULA_CASE(cpp, name, text) \
  case ScalarType::name: return text;
    FACULA_FORALL_SCALAR_TYPES(FACULA_CASE)
#undef FACULA_CASE
    default: return "undefined";
  }
}

std::ostream& operator<<(std::ostream& os, ScalarType t) { return os << toString(t); }

namespace {

constexpr ScalarType promote_floats(ScalarType a, ScalarType b) {
  if (a == b) return a;
  if (a == kDouble || b == kDouble) return kDouble;
  return kFloat;  // float with anything, and half with bfloat16: neither holds the other
}

constexpr ScalarType promote_integers(ScalarType a, ScalarType b) {
  const bool one_unsigned = (a == kByte) != (b == kByte);
  if (one_unsigned && (a == kChar || b == kChar)) return kShort;
  if (elementSize(a) == elementSize(b)) return a;
  return elementSize(a) > elementSize(b) ? a : b;
}

constexpr ScalarType promote(ScalarType a, ScalarType b) {
  constexpr ScalarType kNone = ScalarType::Undefined;
  if (a == kNone || b == kNone) return kNone;
  if (a == b) return a;
  if (isFloat8Type(a) || isFloat8Type(b)) return kNone;
  if (isComplexType(a) || isComplexType(b)) {
    const ScalarType real = promote(toRealValueType(a), toRealValueType(b));
    return toComplexType(real);
  }
  if (isFloatingType(a) && isFloatingType(b)) return promote_floats(a, b);
  if (isFloatingType(a)) return a;
  if (isFloatingType(b)) return b;
  if (a == kBool) return b;
  if (b == kBool) return a;
  if (isBarebonesUnsignedType(a) || isBarebonesUnsignedType(b)) return kNone;
  return promote_integers(a, b);
}

struct PromotionTable {
  ScalarType entry[kNumScalarTypes + 1][kNumScalarTypes + 1];
  constexpr PromotionTable() : entry() {
    for (int a = 0; a <= kNumScalarTypes; ++a) {
      for (int b = 0; b <= kNumScalarTypes; ++b) {
        entry[a][b] = promote(static_cast<ScalarType>(a), static_cast<ScalarType>(b));
      }
    }
  }
};

constexpr PromotionTable kPromotion;

}  // namespace

ScalarType promoteTypes(ScalarType a, ScalarType b) {
  return kPromotion.entry[static_cast<int>(a)][static_cast<int>(b)];
}

void detail::raise_dispatch_error(ScalarType t, const char* wanted) {
  throw DTypeError(str("expected ", wanted, ", got ", dtype_name(t)));
}

}  // namespace facula
