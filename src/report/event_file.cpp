// Records and messages of event files.
#include "report/event_file.h"

#include "report/crc.h"

#include <cstring>

namespace facula::report {
namespace {

void put_little_endian(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

// The checks of records are turned, because a check over data that holds checks is weak.
uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

}  // namespace

uint32_t crc32c(std::string_view bytes) { return crc32_of<0x82F63B78u>(bytes); }

std::string record(std::string_view bytes) {
  std::string out;
  put_little_endian(out, bytes.size(), 8);
  put_little_endian(out, masked(crc32c(out)), 4);
  out += bytes;
  put_little_endian(out, masked(crc32c(bytes)), 4);
  return out;
}

void Message::raw(uint64_t value) {
  for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
  out_ += static_cast<char>(value);
}

void Message::key(int field, int wire_type) {
  raw(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
}

Message& Message::varint(int field, uint64_t value) {
  key(field, 0);
  raw(value);
  return *this;
}

Message& Message::number(int field, double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  key(field, 1);
  put_little_endian(out_, bits, 8);
  return *this;
}

Message& Message::single(int field, float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  key(field, 5);
  put_little_endian(out_, bits, 4);
  return *this;
}

Message& Message::bytes(int field, std::string_view value) {
  key(field, 2);
  raw(value.size());
  out_ += value;
  return *this;
}

Message& Message::numbers(int field, const std::vector<double>& values) {
  key(field, 2);
  raw(values.size() * 8);
  for (const double value : values) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    put_little_endian(out_, bits, 8);
  }
  return *this;
}

}  // namespace facula::report
