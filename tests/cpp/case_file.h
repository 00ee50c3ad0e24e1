// Case files: what tests/truth/make_cases.py drew from the record of one op, and what it computed as the truth. Plain
// data; nothing here calls the library under test.
//
// All numbers are little-endian. A string or blob is u64 length and bytes; a shape is u32 length and i64s.
//
//   file     "FACCASE1", u64 seed, string op, u32 count, count cases
//   case     string title, u8 kind (CaseKind), u32 flags (CaseFlag), string schema (the `def` line in the op book),
//            u32 count, count values (the arguments up to the last one given), then by kind:
//              values  results
//              error   string type, string text
//              random  results (values unused), f64 low high mean std, u32 count, count points (f64 x, f64 p),
//                      u8 permutation
//   value    u8 tag (the index in CaseValue), then: nothing | tensor | i64 | f64 | u8 | 2 f64 | string | shape |
//            u32 and f64s | u32 and tensors | u32 and (u8 present, tensor)s | u8 dtype | string | u32 and u8s | string
//   tensor   u8 dtype, shape sizes, i64 strides (as many), i64 storage offset, blob storage
//   results  u32 count, count of: u8 0, u8 dtype, shape, f64 rtol atol, blob (u8 | u64 | i64 | f64 | 2 f64 for each
//                                 element; empty, with an rtol of NaN, when only dtype and shape are claimed)
//                                 u8 1, value, f64 rtol atol
//
// Dtype codes are the numbers of libtorch's ScalarType.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace facula::testing {

enum class CaseKind : uint8_t { kValues, kError, kRandom };

enum CaseFlag : uint32_t {
  kCheckMeta = 1,
  kCheckInplace = 2,
  kCheckOut = 4,
  kCheckLayouts = 8,
  kCheckThreads = 16,
  kSignedZero = 32,
  kAliasesSelf = 64,
  kUndefinedValues = 128,
  kCheckDevices = 256,
};

// A tensor's strided memory, exactly as it must lie in the library.
struct CaseTensor {
  uint8_t dtype = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t storage_offset = 0;
  std::vector<std::byte> storage;
};

struct CaseDType {
  uint8_t code = 0;
};

struct CaseDevice {
  std::string name;
};

struct CaseMemoryFormat {
  std::string name;
};

using CaseValue =
    std::variant<std::monostate, CaseTensor, int64_t, double, bool, std::complex<double>, std::string,
                 std::vector<int64_t>, std::vector<double>, std::vector<CaseTensor>,
                 std::vector<std::optional<CaseTensor>>, CaseDType, CaseDevice, std::vector<bool>, CaseMemoryFormat>;

// The truth about one result: its claimed dtype and shape, and its values in the widest type of their category.
struct CaseTruth {
  uint8_t dtype = 0;
  std::vector<int64_t> sizes;
  double rtol = 0;
  double atol = 0;
  std::vector<std::byte> values;
  // Set when the result is a plain number rather than a tensor.
  std::optional<CaseValue> number;
};

struct CaseStatistics {
  double low = 0;
  double high = 0;
  double mean = 0;
  double std = 0;
  std::vector<std::pair<double, double>> cdf;
  bool permutation = false;
};

struct Case {
  std::string title;
  CaseKind kind = CaseKind::kValues;
  uint32_t flags = 0;
  std::string schema;
  std::vector<CaseValue> args;
  std::vector<CaseTruth> truth;
  std::string error_type;
  std::string error_text;
  CaseStatistics statistics;
};

struct CaseFile {
  uint64_t seed = 0;
  std::string op;
  std::vector<Case> cases;
};

// Reads a case file; throws std::runtime_error when it is missing or not one.
CaseFile read_case_file(const std::string& path);

}  // namespace facula::testing
