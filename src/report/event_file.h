// The bytes of an event file: records with checksums, and the few messages of protocol buffers that TensorBoard reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace facula::report {

// Castagnoli's cyclic redundancy check.
uint32_t crc32c(std::string_view bytes);
// A record: its length, a check of the length, the bytes, a check of the bytes.
std::string record(std::string_view bytes);

// A message under construction: fields are appended in any order.
class Message {
 public:
  Message& varint(int field, uint64_t value);
  Message& number(int field, double value);
  Message& single(int field, float value);
  Message& bytes(int field, std::string_view value);
  Message& message(int field, const Message& value) { return bytes(field, value.out_); }
  Message& numbers(int field, const std::vector<double>& values);
  const std::string& text() const { return out_; }

 private:
  void key(int field, int wire_type);
  void raw(uint64_t value);
  std::string out_;
};

}  // namespace facula::report
