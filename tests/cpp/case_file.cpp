// Reads case files; the format stands in case_file.h.
#include "cpp/case_file.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <type_traits>

namespace facula::testing {
namespace {

class Reader {
 public:
  explicit Reader(std::vector<char> bytes, std::string path) : bytes_(std::move(bytes)), path_(std::move(path)) {}

  template <class T>
  T number() {
    static_assert(std::is_arithmetic_v<T>);
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }

  std::string string() {
    const auto size = number<uint64_t>();
    const char* data = take(size);
    return std::string(data, size);
  }

  std::vector<std::byte> blob() {
    const auto size = number<uint64_t>();
    const char* data = take(size);
    std::vector<std::byte> out(size);
    if (size != 0) std::memcpy(out.data(), data, size);
    return out;
  }

  template <class Make>
  auto list(size_t count, Make make) {
    std::vector<decltype(make())> out;
    for (size_t i = 0; i < count; ++i) out.push_back(make());
    return out;
  }

  std::vector<int64_t> int64s(size_t count) {
    return list(count, [this] { return number<int64_t>(); });
  }
  std::vector<int64_t> shape() { return int64s(number<uint32_t>()); }

  CaseTensor tensor() {
    CaseTensor out;
    out.dtype = number<uint8_t>();
    out.sizes = shape();
    out.strides = int64s(out.sizes.size());
    out.storage_offset = number<int64_t>();
    out.storage = blob();
    return out;
  }

  CaseValue value() {
    switch (number<uint8_t>()) {
      case 0: return std::monostate{};
      case 1: return tensor();
      case 2: return number<int64_t>();
      case 3: return number<double>();
      case 4: return number<uint8_t>() != 0;
      case 5: {
        const auto real = number<double>();
        return std::complex<double>(real, number<double>());
      }
      case 6: return string();
      case 7: return shape();
      case 8: return list(number<uint32_t>(), [this] { return number<double>(); });
      case 9: return list(number<uint32_t>(), [this] { return tensor(); });
      case 10:
        return list(number<uint32_t>(), [this]() -> std::optional<CaseTensor> {
          if (number<uint8_t>() == 0) return std::nullopt;
          return tensor();
        });
      case 11: return CaseDType{number<uint8_t>()};
      case 12: return CaseDevice{string()};
      case 13: return list(number<uint32_t>(), [this] { return number<uint8_t>() != 0; });
      case 14: return CaseMemoryFormat{string()};
      default: fail("unknown value tag");
    }
  }

  CaseTruth truth() {
    CaseTruth out;
    if (number<uint8_t>() == 1) {
      out.number = value();
    } else {
      out.dtype = number<uint8_t>();
      out.sizes = shape();
    }
    out.rtol = number<double>();
    out.atol = number<double>();
    if (!out.number) out.values = blob();
    return out;
  }

  CaseStatistics statistics() {
    CaseStatistics out;
    out.low = number<double>();
    out.high = number<double>();
    out.mean = number<double>();
    out.std = number<double>();
    out.cdf = list(number<uint32_t>(), [this] {
      const auto x = number<double>();
      return std::pair(x, number<double>());
    });
    out.permutation = number<uint8_t>() != 0;
    return out;
  }

  Case one_case() {
    Case out;
    out.title = string();
    out.kind = static_cast<CaseKind>(number<uint8_t>());
    out.flags = number<uint32_t>();
    out.schema = string();
    out.args = list(number<uint32_t>(), [this] { return value(); });
    if (out.kind == CaseKind::kError) {
      out.error_type = string();
      out.error_text = string();
    } else {
      out.truth = list(number<uint32_t>(), [this] { return truth(); });
    }
    if (out.kind == CaseKind::kRandom) out.statistics = statistics();
    return out;
  }

  CaseFile file() {
    if (std::memcmp(take(8), "FACCASE1", 8) != 0) fail("not a case file");
    CaseFile out;
    out.seed = number<uint64_t>();
    out.op = string();
    out.cases = list(number<uint32_t>(), [this] { return one_case(); });
    if (at_ != bytes_.size()) fail("bytes after the last case");
    return out;
  }

 private:
  [[noreturn]] void fail(const char* why) const {
    throw std::runtime_error(path_ + ": " + why + " (at byte " + std::to_string(at_) + "); draw the cases again");
  }

  const char* take(uint64_t count) {
    if (count > bytes_.size() - at_) fail("ends too early");
    const char* data = bytes_.data() + at_;
    at_ += count;
    return data;
  }

  std::vector<char> bytes_;
  std::string path_;
  size_t at_ = 0;
};

}  // namespace

CaseFile read_case_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("no case file " + path);
  std::vector<char> bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  return Reader(std::move(bytes), path).file();
}

}  // namespace facula::testing
