// Choices among named ways, such as `kMean` or `kReLU`: each name is a type of its own, and an option holds a Choice of those
// that make sense for it. So a choice that an option does not know is an error of the compiler. A Choice is read like a
// std::variant of the names, `get_if<enumtype::kMean>(&choice)`; it is none because a variant costs every program that
// includes it a multiple of the time to compile.
#pragma once

#include <facula/core/export.h>
#include <facula/reduction.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

// clang-format off
#define FACULA_CHOICES(X)                                                                                     \
  X(Linear) X(Conv1D) X(Conv2D) X(Conv3D) X(ConvTranspose1D) X(ConvTranspose2D) X(ConvTranspose3D)            \
  X(Sigmoid) X(Tanh) X(ReLU) X(GELU) X(SiLU) X(Mish) X(LeakyReLU)                                             \
  X(FanIn) X(FanOut)                                                                                          \
  X(Constant) X(Reflect) X(Replicate) X(Circular)                                                             \
  X(Nearest) X(Bilinear) X(Bicubic) X(Trilinear) X(Area) X(NearestExact)                                      \
  X(Sum) X(Mean) X(Max) X(None) X(BatchMean)                                                                  \
  X(Zeros) X(Border) X(Reflection)                                                                            \
  X(RNN_TANH) X(RNN_RELU) X(LSTM) X(GRU)                                                                      \
  X(Valid) X(Same)
// clang-format on

namespace facula {

namespace enumtype {
enum class Id : uint8_t {
#define FACULA_CHOICE_ID(Name) Name,
  FACULA_CHOICES(FACULA_CHOICE_ID)
#undef FACULA_CHOICE_ID
};
#define FACULA_CHOICE_TYPE(Name)                           \
  struct k##Name {                                         \
    static constexpr Id id = Id::Name;                     \
    bool operator==(const k##Name&) const { return true; } \
  };
FACULA_CHOICES(FACULA_CHOICE_TYPE)
#undef FACULA_CHOICE_TYPE

// As they are written: "kMean".
inline constexpr const char* kNames[] = {
#define FACULA_CHOICE_NAME(Name) "k" #Name,
    FACULA_CHOICES(FACULA_CHOICE_NAME)
#undef FACULA_CHOICE_NAME
};
// The number that the `reduction` argument of ops takes.
FACULA_API int64_t reduction_of(Id id);

// One of these names; the first at first.
template <class First, class... More>
class Choice {
 public:
  constexpr Choice() : id_(First::id) {}
  template <class Name>
    requires(std::is_same_v<Name, First> || (std::is_same_v<Name, More> || ...))
  constexpr Choice(Name) : id_(Name::id) {}
  constexpr Id id() const { return id_; }
  // Its place among the names.
  constexpr size_t index() const {
    size_t place = 0;
    if (id_ != First::id) static_cast<void>(((++place, id_ == More::id) || ...));
    return place;
  }
  bool operator==(const Choice&) const = default;

 private:
  Id id_;
};
// As of a variant, the names that it may hold alone.
template <class Name, class... Names>
constexpr bool holds_alternative(const Choice<Names...>& choice) {
  static_assert((std::is_same_v<Name, Names> || ...), "this option never has that name");
  return choice.id() == Name::id;
}
template <class Name, class... Names>
const Name* get_if(const Choice<Names...>* choice) {
  static constexpr Name kName{};
  return choice && holds_alternative<Name>(*choice) ? &kName : nullptr;
}
template <class... Names>
std::string get_enum_name(const Choice<Names...>& choice) {
  return kNames[static_cast<size_t>(choice.id())];
}
template <class... Names>
int64_t reduction_get_enum(const Choice<Names...>& choice) {
  return reduction_of(choice.id());
}
}  // namespace enumtype
using enumtype::Choice;
using enumtype::get_if;
using enumtype::holds_alternative;

#define FACULA_CHOICE_VALUE(Name) inline constexpr enumtype::k##Name k##Name{};
FACULA_CHOICES(FACULA_CHOICE_VALUE)
#undef FACULA_CHOICE_VALUE

}  // namespace facula
#undef FACULA_CHOICES
