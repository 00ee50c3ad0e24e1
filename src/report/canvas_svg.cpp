// Plots as SVG.
#include "report/canvas.h"

#include <facula/core/error.h>

#include "io/json_reader.h"

#include <cstdio>

namespace facula::report {
namespace {

std::string number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.2f", value);
  std::string text(buffer);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string hex(Color color) {
  char buffer[8];
  std::snprintf(buffer, sizeof buffer, "#%02x%02x%02x", color.red, color.green, color.blue);
  return buffer;
}

// XML knows neither control characters nor bytes that are not UTF-8.
std::string escaped(std::string_view text) {
  const bool valid = io::is_utf8(text);
  std::string made;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&') made += "&amp;";
    else if (c == '<') made += "&lt;";
    else if (c == '>') made += "&gt;";
    else if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !valid)) made += '?';
    else made += c;
  }
  return made;
}

class SvgCanvas : public Canvas {
 public:
  SvgCanvas(int width, int height) {
    out_ = str("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height, "\" viewBox=\"0 0 ",
               width, " ", height,
               "\" font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
  }
  void line(const std::vector<Point>& points, Color color, double width) override {
    out_ += "<polyline fill=\"none\" stroke-linejoin=\"round\" stroke=\"" + hex(color) + "\" stroke-width=\"" +
            number(width) + "\" points=\"";
    for (const auto& [x, y] : points) out_ += number(x) + ',' + number(y) + ' ';
    out_ += "\"/>\n";
  }
  void text(std::string_view text, double x, double y, double size, Color color, Align align) override {
    const char* anchor = align == Align::Left ? "start" : align == Align::Center ? "middle" : "end";
    out_ += "<text x=\"" + number(x) + "\" y=\"" + number(y + size / 2) + "\" font-size=\"" + number(size * 1.35) +
            "\" text-anchor=\"" + anchor + "\" fill=\"" + hex(color) + "\">" + escaped(text) + "</text>\n";
  }
  std::string finish() override { return out_ + "</svg>\n"; }

 private:
  std::string out_;
};

}  // namespace

std::unique_ptr<Canvas> make_svg_canvas(int width, int height) { return std::make_unique<SvgCanvas>(width, height); }

}  // namespace facula::report
