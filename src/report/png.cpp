// A PNG encoder: rows as differences to the row above, whose runs of equal bytes are all that is compressed. Curves and
// digits become small by that; photographs stay as large as they are.
#include "report/png.h"

#include "report/crc.h"

#include <facula/core/error.h>

#include <algorithm>

namespace facula::report {
namespace {

void put_big_endian(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

void put_chunk(std::string& out, const char* kind, std::string_view data) {
  put_big_endian(out, static_cast<uint32_t>(data.size()));
  std::string body(kind, 4);
  body += data;
  out += body;
  put_big_endian(out, crc32_of<0xEDB88320u>(body));
}

// One block of deflate with its fixed code.
class Deflater {
 public:
  std::string run(std::string_view bytes) {
    put_bits(1, 1);  // the last block
    put_bits(1, 2);  // fixed code
    for (size_t i = 0; i < bytes.size();) {
      literal(static_cast<unsigned char>(bytes[i]));
      size_t length = 1;
      while (i + length < bytes.size() && bytes[i + length] == bytes[i]) ++length;
      size_t left = length - 1;
      for (; left >= 3; left -= std::min<size_t>(left, 258)) repeat(static_cast<unsigned>(std::min<size_t>(left, 258)));
      for (; left > 0; --left) literal(static_cast<unsigned char>(bytes[i]));
      i += length;
    }
    symbol(256);
    if (filled_ > 0) out_ += static_cast<char>(held_);
    return std::move(out_);
  }

 private:
  // Lowest bit first.
  void put_bits(uint32_t value, int count) {
    held_ |= static_cast<uint64_t>(value) << filled_;
    filled_ += count;
    while (filled_ >= 8) {
      out_ += static_cast<char>(held_);
      held_ >>= 8;
      filled_ -= 8;
    }
  }
  // Huffman codes go highest bit first.
  void put_code(uint32_t code, int count) {
    uint32_t turned = 0;
    for (int i = 0; i < count; ++i) turned |= (code >> i & 1) << (count - 1 - i);
    put_bits(turned, count);
  }
  void symbol(unsigned s) {
    if (s < 144) put_code(0x30 + s, 8);
    else if (s < 256) put_code(0x190 + s - 144, 9);
    else if (s < 280) put_code(s - 256, 7);
    else put_code(0xC0 + s - 280, 8);
  }
  void literal(unsigned char byte) { symbol(byte); }
  // The byte before, 3 to 258 times.
  void repeat(unsigned length) {
    static constexpr unsigned kFirst[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                          31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    static constexpr int kExtra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                     2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    int which = 28;
    while (kFirst[which] > length) --which;
    symbol(257 + static_cast<unsigned>(which));
    put_bits(length - kFirst[which], kExtra[which]);
    put_code(0, 5);  // distance 1
  }

  std::string out_;
  uint64_t held_ = 0;
  int filled_ = 0;
};

std::string zlib(std::string_view bytes) {
  std::string made("\x78\x01", 2);
  made += Deflater().run(bytes);
  uint32_t a = 1, b = 0;
  for (const char byte : bytes) {
    a = (a + static_cast<unsigned char>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  put_big_endian(made, b << 16 | a);
  return made;
}

}  // namespace

std::string encode_png(std::string_view pixels, uint32_t width, uint32_t height, int channels) {
  FACULA_CHECK(channels >= 1 && channels <= 4, ValueError, "encode_png: expected 1 to 4 channels, got ", channels);
  FACULA_CHECK(width > 0 && height > 0 && pixels.size() == uint64_t{width} * height * static_cast<unsigned>(channels),
               ValueError, "encode_png: ", pixels.size(), " bytes are not a picture of ", width, " x ", height,
               " with ", channels, " channels");
  const size_t row_bytes = size_t{width} * static_cast<size_t>(channels);
  std::string rows;
  rows.reserve((row_bytes + 1) * height);
  for (size_t y = 0; y < height; ++y) {
    rows += y == 0 ? '\0' : '\2';  // the row itself, or its difference to the one above
    for (size_t x = 0; x < row_bytes; ++x)
      rows += static_cast<char>(pixels[y * row_bytes + x] - (y == 0 ? 0 : pixels[(y - 1) * row_bytes + x]));
  }
  static constexpr char kColorTypes[] = {0, 4, 2, 6};
  std::string header;
  put_big_endian(header, width);
  put_big_endian(header, height);
  header += std::string{8, kColorTypes[channels - 1], 0, 0, 0};
  std::string out("\x89PNG\r\n\x1a\n", 8);
  put_chunk(out, "IHDR", header);
  put_chunk(out, "IDAT", zlib(rows));
  put_chunk(out, "IEND", {});
  return out;
}

}  // namespace facula::report
