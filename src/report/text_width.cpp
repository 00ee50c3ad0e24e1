// The width of text on a terminal, by the blocks of Unicode.
#include "report/text_width.h"

#include <facula/progress.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace facula {
namespace report {
namespace {

struct Block {
  uint32_t first, last;
};

// Marks that join the letter before them, and characters that show nothing.
constexpr Block kNoWidth[] = {
    {0x0300, 0x036F}, {0x0483, 0x0489},   {0x0591, 0x05BD},   {0x05BF, 0x05BF},  {0x05C1, 0x05C2}, {0x05C4, 0x05C5},
    {0x0610, 0x061A}, {0x064B, 0x065F},   {0x0670, 0x0670},   {0x06D6, 0x06DC},  {0x06DF, 0x06E4}, {0x0711, 0x0711},
    {0x0730, 0x074A}, {0x0900, 0x0902},   {0x093C, 0x093C},   {0x0941, 0x0948},  {0x094D, 0x094D}, {0x0E31, 0x0E31},
    {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E},   {0x1AB0, 0x1AFF},   {0x1DC0, 0x1DFF},  {0x200B, 0x200F}, {0x202A, 0x202E},
    {0x2060, 0x2064}, {0x20D0, 0x20FF},   {0x302A, 0x302D},   {0x3099, 0x309A},  {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F},
    {0xFEFF, 0xFEFF}, {0x1F3FB, 0x1F3FF}, {0xE0001, 0xE007F}, {0xE0100, 0xE01EF}};
// Letters of two columns.
constexpr Block kWide[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x23F0, 0x23F0},   {0x23F3, 0x23F3},
    {0x25FD, 0x25FE},   {0x2614, 0x2615},   {0x2648, 0x2653},   {0x267F, 0x267F},   {0x2693, 0x2693},
    {0x26A1, 0x26A1},   {0x26AA, 0x26AB},   {0x26BD, 0x26BE},   {0x26C4, 0x26C5},   {0x26CE, 0x26CE},
    {0x26D4, 0x26D4},   {0x26EA, 0x26EA},   {0x26F2, 0x26F3},   {0x26F5, 0x26F5},   {0x26FA, 0x26FA},
    {0x26FD, 0x26FD},   {0x2705, 0x2705},   {0x270A, 0x270B},   {0x2728, 0x2728},   {0x274C, 0x274C},
    {0x274E, 0x274E},   {0x2753, 0x2755},   {0x2757, 0x2757},   {0x2795, 0x2797},   {0x27B0, 0x27B0},
    {0x27BF, 0x27BF},   {0x2B1B, 0x2B1C},   {0x2B50, 0x2B50},   {0x2B55, 0x2B55},   {0x2E80, 0x303E},
    {0x3041, 0x33FF},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},   {0xA960, 0xA97F},
    {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
    {0x16FE0, 0x18CFF}, {0x1AFF0, 0x1B2FF}, {0x1F004, 0x1F004}, {0x1F0CF, 0x1F0CF}, {0x1F18E, 0x1F18E},
    {0x1F191, 0x1F19A}, {0x1F200, 0x1F320}, {0x1F32D, 0x1F335}, {0x1F337, 0x1F37C}, {0x1F37E, 0x1F393},
    {0x1F3A0, 0x1F3CA}, {0x1F3CF, 0x1F3D3}, {0x1F3E0, 0x1F3F0}, {0x1F3F4, 0x1F3F4}, {0x1F3F8, 0x1F43E},
    {0x1F440, 0x1F440}, {0x1F442, 0x1F4FC}, {0x1F4FF, 0x1F53D}, {0x1F54B, 0x1F54E}, {0x1F550, 0x1F567},
    {0x1F57A, 0x1F57A}, {0x1F595, 0x1F596}, {0x1F5A4, 0x1F5A4}, {0x1F5FB, 0x1F64F}, {0x1F680, 0x1F6C5},
    {0x1F6CC, 0x1F6CC}, {0x1F6D0, 0x1F6D2}, {0x1F6D5, 0x1F6D7}, {0x1F6DC, 0x1F6DF}, {0x1F6EB, 0x1F6EC},
    {0x1F6F4, 0x1F6FC}, {0x1F7E0, 0x1F7EB}, {0x1F7F0, 0x1F7F0}, {0x1F90C, 0x1F93A}, {0x1F93C, 0x1F945},
    {0x1F947, 0x1F9FF}, {0x1FA70, 0x1FAFF}, {0x20000, 0x3FFFD}};

template <size_t N>
bool is_in(const Block (&blocks)[N], uint32_t code) {
  const Block* found = std::lower_bound(std::begin(blocks), std::end(blocks), code,
                                        [](const Block& block, uint32_t value) { return block.last < value; });
  return found != std::end(blocks) && code >= found->first;
}

// The character at `at`, which moves behind it. A byte that begins none is one by itself, of one column.
uint32_t next_code(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(at);
  const size_t length = first < 0x80 ? 1 : (first >> 5) == 6 ? 2 : (first >> 4) == 14 ? 3 : (first >> 3) == 30 ? 4 : 0;
  if (length == 0 || at + length > text.size()) {
    ++at;
    return 0xFFFD;
  }
  uint32_t code = length == 1 ? first : first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) {
      ++at;
      return 0xFFFD;
    }
    code = code << 6 | (byte(at + i) & 0x3F);
  }
  at += length;
  return code;
}

int width_of(uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return 0;
  if (code < 0x300) return 1;
  if (is_in(kNoWidth, code)) return 0;
  return is_in(kWide, code) ? 2 : 1;
}

}  // namespace

std::string cut_to_width(std::string_view text, int columns) {
  int used = 0;
  size_t at = 0;
  while (at < text.size()) {
    const size_t begin = at;
    const int width = width_of(next_code(text, at));
    if (used + width > columns) return std::string(text.substr(0, begin));
    used += width;
  }
  return std::string(text);
}

std::string fit_to_width(std::string_view text, int columns) {
  std::string made = cut_to_width(text, columns);
  made.append(static_cast<size_t>(std::max(0, columns - display_width(made))), ' ');
  return made;
}

std::string printable(std::string_view text) {
  std::string made;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const uint32_t code = next_code(text, at);
    if (code < 0x20 || (code >= 0x7F && code < 0xA0)) made += ' ';
    else if (code == 0xFFFD) made += '?';
    else made += text.substr(begin, at - begin);
  }
  return made;
}

}  // namespace report

int display_width(std::string_view text) {
  int width = 0;
  for (size_t at = 0; at < text.size();) width += report::width_of(report::next_code(text, at));
  return width;
}

}  // namespace facula
