// Reads the environment; the table of variables is in env.h.
#include "core/env.h"

#include <charconv>
#include <cstdlib>

#include <facula/core/error.h>

namespace facula {

namespace {

constexpr const char* kNames[] = {
#define FACULA_ENV_NAME(id, name, text) name,
    FACULA_FORALL_ENV_VARS(FACULA_ENV_NAME)
#undef FACULA_ENV_NAME
};

}  // namespace

std::optional<std::string_view> env(EnvVar var) {
  const char* value = std::getenv(kNames[static_cast<int>(var)]);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string_view(value);
}

std::optional<std::string_view> env_or_empty(EnvVar var) {
  const char* value = std::getenv(kNames[static_cast<int>(var)]);
  if (value == nullptr) return std::nullopt;
  return std::string_view(value);
}

std::optional<long> env_number(EnvVar var, long least) {
  const auto text = env(var);
  if (!text) return std::nullopt;
  long number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  const bool whole = error == std::errc() && end == text->data() + text->size();
  FACULA_CHECK(whole && number >= least, ValueError, "environment variable ", kNames[static_cast<int>(var)],
               " must be a whole number of at least ", least, ", got \"", *text, "\"");
  return number;
}

}  // namespace facula
