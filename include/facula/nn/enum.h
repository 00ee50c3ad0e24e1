// Choices among named ways, such as `kMean` or `kReLU`: each name is a type of its own, and an option holds a variant of those
// that make sense for it. So a choice that an option does not know is an error of the compiler.
#pragma once

#include <facula/core/export.h>
#include <facula/reduction.h>

#include <cstdint>
#include <string>
#include <variant>

#define FACULA_CHOICES(X)                                                                                             \
  X(Linear)                                                                                                           \
  X(Conv1D)                                                                                                           \
  X(Conv2D)                                                                                                           \
  X(Conv3D)                                                                                                           \
  X(ConvTranspose1D)                                                                                                  \
  X(ConvTranspose2D)                                                                                                  \
  X(ConvTranspose3D) X(Sigmoid) X(Tanh) X(ReLU) X(GELU) X(SiLU) X(Mish) X(LeakyReLU) X(FanIn) X(FanOut) X(Constant)   \
      X(Reflect) X(Replicate) X(Circular) X(Nearest) X(Bilinear) X(Bicubic) X(Trilinear) X(Area) X(NearestExact)      \
          X(Sum) X(Mean) X(Max) X(None) X(BatchMean) X(Zeros) X(Border) X(Reflection) X(RNN_TANH) X(RNN_RELU) X(LSTM) \
              X(GRU) X(Valid) X(Same)

namespace facula {

namespace enumtype {
#define FACULA_CHOICE_TYPE(Name)                           \
  struct k##Name {                                         \
    static constexpr const char* name = "k" #Name;         \
    bool operator==(const k##Name&) const { return true; } \
  };
FACULA_CHOICES(FACULA_CHOICE_TYPE)
#undef FACULA_CHOICE_TYPE

// The name of the choice that a variant holds, as it is written: "kMean".
template <class... Choices>
std::string get_enum_name(const std::variant<Choices...>& choice) {
  return std::visit([](const auto& one) -> std::string { return one.name; }, choice);
}

FACULA_API int64_t reduction_of(const std::string& name);
// The number that the `reduction` argument of ops takes.
template <class... Choices>
int64_t reduction_get_enum(const std::variant<Choices...>& choice) {
  return reduction_of(get_enum_name(choice));
}
}  // namespace enumtype

#define FACULA_CHOICE_VALUE(Name) inline constexpr enumtype::k##Name k##Name{};
FACULA_CHOICES(FACULA_CHOICE_VALUE)
#undef FACULA_CHOICE_VALUE

}  // namespace facula
#undef FACULA_CHOICES
