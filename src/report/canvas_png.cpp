// Plots as pixels. Letters are strokes on a grid of 4 x 6 that the line drawer draws; small letters are capitals of a
// smaller size.
#include "report/canvas.h"

#include "report/png.h"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace facula::report {
namespace {

// Points as pairs of digits (column 0 to 4, row 0 to 6 from below); a space begins a new stroke.
const char* strokes_of(char c) {
  switch (c) {
    case '0': return "1030414536160501 10";
    case '1': return "052620 1030";
    case '2': return "0516364544000040";
    case '3': return "0516364544331333 4241301001";
    case '4': return "3036020242";
    case '5': return "460603334241301001";
    case '6': return "45361605011030414233130302";
    case '7': return "064610";
    case '8': return "1304051636454433130201103041423313";
    case '9': return "0110304145361605041333";
    case 'A': return "0004264440 0242";
    case 'B': return "00063645443303 3342413000";
    case 'C': return "4536160501103041";
    case 'D': return "00062644422000";
    case 'E': return "46060040 0333";
    case 'F': return "460600 0333";
    case 'G': return "453616050110304143232343";
    case 'H': return "0006 4046 0343";
    case 'I': return "1030 2026 1636";
    case 'J': return "4641301001";
    case 'K': return "0006 4602 1340";
    case 'L': return "060040";
    case 'M': return "0006234640";
    case 'N': return "00064046";
    case 'O': return "103041453616050110";
    case 'P': return "00063645443303";
    case 'Q': return "103041453616050110 2240";
    case 'R': return "00063645443303 2340";
    case 'S': return "453616050413334241301001";
    case 'T': return "2026 0646";
    case 'U': return "060110304146";
    case 'V': return "062046";
    case 'W': return "0610243046";
    case 'X': return "0046 0640";
    case 'Y': return "062346 2320";
    case 'Z': return "06460040";
    case '.': return "202120";
    case ',': return "2110";
    case ':': return "212122 242425";
    case ';': return "2110 2425";
    case '-': return "0343";
    case '+': return "0343 2125";
    case '=': return "0242 0444";
    case '_': return "0040";
    case '/': return "0046";
    case '\\': return "0640";
    case '(': return "36242230";
    case ')': return "16242210";
    case '[': return "36161030";
    case ']': return "16363010";
    case '%': return "0046 0605161506 4041313040";
    case '*': return "1135 1531 0343";
    case '#': return "1016 3036 0242 0444";
    case '<': return "460340";
    case '>': return "064300";
    case '!': return "2622 2120";
    case '\'': return "2625";
    case '"': return "1615 3635";
    case '|': return "2026";
    case ' ': return "";
    default: return "00064640 00";  // a box: what has no strokes
  }
}

class PngCanvas : public Canvas {
 public:
  PngCanvas(int width, int height)
      : width_(width), height_(height), pixels_(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, '\xFF') {}

  void line(const std::vector<Point>& points, Color color, double width) override {
    for (size_t i = 0; i + 1 < points.size(); ++i) segment(points[i], points[i + 1], color, width);
    if (points.size() == 1) segment(points[0], points[0], color, width);
  }

  void text(std::string_view text, double x, double y, double size, Color color, Align align) override {
    std::string letters;
    for (const char c : text)  // bytes that continue a letter of UTF-8 are part of one box
      if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) letters += c;
    double total = 0;
    for (const char c : letters) total += advance(c, size);
    if (align == Align::Center) x -= total / 2;
    else if (align == Align::Right) x -= total;
    for (const char c : letters) {
      letter(c, x, y + size / 2, height_of(c, size), color);
      x += advance(c, size);
    }
  }

  std::string finish() override {
    return encode_png(pixels_, static_cast<uint32_t>(width_), static_cast<uint32_t>(height_), 3);
  }

 private:
  static double height_of(char c, double size) {
    return std::islower(static_cast<unsigned char>(c)) ? 0.78 * size : size;
  }
  static double advance(char c, double size) { return height_of(c, size) * (c == '.' || c == ',' ? 0.55 : 0.92); }

  void letter(char c, double x, double base, double size, Color color) {
    const double unit = size / 6;
    const char* at = strokes_of(static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
    if (c == '.' || c == ',') x -= unit;
    std::vector<Point> stroke;
    for (;; ++at) {
      if (*at == '\0' || *at == ' ') {
        line(stroke, color, std::max(1.0, size / 8));
        stroke.clear();
        if (*at == '\0') return;
        continue;
      }
      if (at[1] == '\0' || at[1] == ' ') continue;
      stroke.emplace_back(x + unit * (at[0] - '0'), base - unit * (at[1] - '0'));
      ++at;
    }
  }

  // Every pixel near the segment gets as much of the color as the line covers of it.
  void segment(Point from, Point to, Color color, double width) {
    const double reach = width / 2 + 1;
    const int x0 = std::max(0, static_cast<int>(std::floor(std::min(from.first, to.first) - reach)));
    const int x1 = std::min(width_ - 1, static_cast<int>(std::ceil(std::max(from.first, to.first) + reach)));
    const int y0 = std::max(0, static_cast<int>(std::floor(std::min(from.second, to.second) - reach)));
    const int y1 = std::min(height_ - 1, static_cast<int>(std::ceil(std::max(from.second, to.second) + reach)));
    const double dx = to.first - from.first, dy = to.second - from.second;
    const double length2 = dx * dx + dy * dy;
    for (int y = y0; y <= y1; ++y)
      for (int x = x0; x <= x1; ++x) {
        const double px = x + 0.5 - from.first, py = y + 0.5 - from.second;
        const double along = length2 > 0 ? std::clamp((px * dx + py * dy) / length2, 0.0, 1.0) : 0;
        const double distance = std::hypot(px - along * dx, py - along * dy);
        const double cover = std::clamp(width / 2 + 0.5 - distance, 0.0, 1.0);
        if (cover > 0) blend(x, y, color, cover);
      }
  }

  void blend(int x, int y, Color color, double cover) {
    const size_t at = (static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x)) * 3;
    const uint8_t channels[] = {color.red, color.green, color.blue};
    for (size_t i = 0; i < 3; ++i) {
      const double before = static_cast<unsigned char>(pixels_[at + i]);
      pixels_[at + i] = static_cast<char>(static_cast<uint8_t>(std::lround(before + cover * (channels[i] - before))));
    }
  }

  int width_, height_;
  std::string pixels_;
};

}  // namespace

std::unique_ptr<Canvas> make_png_canvas(int width, int height) { return std::make_unique<PngCanvas>(width, height); }

}  // namespace facula::report
