// What plots are drawn with: lines and text, the same calls for SVG and for pixels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace facula::report {

struct Color {
  uint8_t red, green, blue;
};
enum class Align { Left, Center, Right };
using Point = std::pair<double, double>;  // from the upper left corner

class Canvas {
 public:
  virtual ~Canvas() = default;
  virtual void line(const std::vector<Point>& points, Color color, double width) = 0;
  // `y` is the middle of the letters, whose height is `size`.
  virtual void text(std::string_view text, double x, double y, double size, Color color, Align align) = 0;
  // The file.
  virtual std::string finish() = 0;
};

std::unique_ptr<Canvas> make_svg_canvas(int width, int height);
std::unique_ptr<Canvas> make_png_canvas(int width, int height);

}  // namespace facula::report
