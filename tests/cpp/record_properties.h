// The properties that every op must have, each run over every case of its record. They return complaints in words
// rather than asserting, so that one op's test can show the first few of many.
#pragma once

#include "cpp/boxed.h"
#include "cpp/case_file.h"

#include <string>
#include <vector>

namespace facula::testing {

// The variants of the overload that a case calls; null where the op has none.
struct Variants {
  const BoxedOp* function = nullptr;
  const BoxedOp* inplace = nullptr;
  const BoxedOp* out = nullptr;

  // What is called "the op" in a case: the function, or the in-place function where there is no other.
  const BoxedOp& plain() const { return function != nullptr ? *function : *inplace; }
};

// Looks up op and schema in the table of boxed calls; throws std::runtime_error when there is no such overload.
Variants find_variants(const std::string& op, const std::string& schema);

// Every complaint about one case; `seed` also seeds random ops.
std::vector<std::string> check_case(const std::string& op, const Case& one, uint64_t seed);

}  // namespace facula::testing
