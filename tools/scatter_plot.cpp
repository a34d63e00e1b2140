#include "tools/scatter_plot.h"

#include <algorithm>
#include <cmath>

#include "tools/terminal.h"

namespace cria::tools {
namespace {

constexpr double kWidth = 960, kHeight = 600, kLeft = 80, kRight = 120, kTop = 70, kBottom = 60;
constexpr double kLabelHeight = 14, kLetterWidth = 7.5;

std::string xml_escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '<'   ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '&' ? "&amp;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  return out;
}

/// Values to pixels along one axis, with round marks.
class Axis {
 public:
  Axis(double low, double high, double from, double to) : from_(from), to_(to) {
    const double span = high > low ? high - low : std::max(std::abs(high), 1.0);
    const double power = std::pow(10, std::floor(std::log10(span / 6)));
    for (const double step : {1.0, 2.0, 5.0, 10.0}) {
      step_ = step * power;
      if (span / step_ <= 8) break;
    }
    low_ = std::floor(low / step_) * step_;
    high_ = std::ceil((high > low ? high : low + span) / step_) * step_;
  }
  [[nodiscard]] double at(double value) const {
    return from_ + (value - low_) / (high_ - low_) * (to_ - from_);
  }
  [[nodiscard]] bool holds(double value) const { return value >= low_ && value <= high_; }
  [[nodiscard]] std::vector<double> marks() const {
    std::vector<double> all;
    for (int i = 0; low_ + i * step_ <= high_ + step_ / 2; ++i) all.push_back(low_ + i * step_);
    return all;
  }
  [[nodiscard]] std::string text(double mark) const {
    return fixed(mark, std::max(0, static_cast<int>(-std::floor(std::log10(step_) + 1e-9))));
  }

 private:
  double from_, to_, low_ = 0, high_ = 1, step_ = 1;
};

std::string number(double value) { return fixed(value, 1); }

std::string line(double x1, double y1, double x2, double y2, const std::string& style) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" +
         number(y2) + "\" " + style + "/>\n";
}

std::string text(double x, double y, const std::string& words, const std::string& style = {}) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + style + ">" + xml_escaped(words) +
         "</text>\n";
}

std::string grid(const ScatterPlot& plot, const Axis& x, const Axis& y) {
  std::string svg;
  for (const double mark : x.marks()) {
    svg += line(x.at(mark), kTop, x.at(mark), kHeight - kBottom, "stroke=\"#e4e4e4\"");
    svg += text(x.at(mark), kHeight - kBottom + 18, x.text(mark), "text-anchor=\"middle\"");
  }
  for (const double mark : y.marks()) {
    svg += line(kLeft, y.at(mark), kWidth - kRight, y.at(mark), "stroke=\"#e4e4e4\"");
    svg += text(kLeft - 8, y.at(mark) + 4, y.text(mark), "text-anchor=\"end\"");
  }
  svg += text((kLeft + kWidth - kRight) / 2, kHeight - 16, plot.x_axis, "text-anchor=\"middle\"");
  const std::string middle = number((kTop + kHeight - kBottom) / 2);
  return svg + text(20, (kTop + kHeight - kBottom) / 2, plot.y_axis,
                    "text-anchor=\"middle\" transform=\"rotate(-90 20 " + middle + ")\"");
}

std::string curve(const ScatterPlot& plot, const Axis& x, const Axis& y) {
  std::string points;
  double label_x = 0, label_y = 0;  // beside the curve's upper end
  for (const auto& [px, py] : plot.curve) {
    if (!x.holds(px) || !y.holds(py)) continue;
    if (points.empty()) label_x = x.at(px) + 12, label_y = y.at(py) + 10;
    points += number(x.at(px)) + "," + number(y.at(py)) + " ";
  }
  if (points.empty()) return {};
  return "<polyline fill=\"none\" stroke=\"#c0392b\" stroke-dasharray=\"6 4\" points=\"" + points + "\"/>\n" +
         text(label_x, label_y, plot.curve_label, "fill=\"#c0392b\"");
}

/// What labels must not cover: from left to right, one line high.
struct Box {
  double left, right, y;
  [[nodiscard]] bool clashes(const Box& other) const {
    return left < other.right && other.left < right && std::abs(y - other.y) < kLabelHeight;
  }
};

/// Labels beside their points; where something else is there already, further down.
std::string points(const ScatterPlot& plot, const Axis& x, const Axis& y) {
  std::vector<PlotPoint> sorted = plot.points;
  std::ranges::sort(sorted, [](const PlotPoint& a, const PlotPoint& b) { return a.y > b.y; });
  std::vector<Box> taken;
  for (const PlotPoint& p : sorted) taken.push_back({x.at(p.x) - 5, x.at(p.x) + 5, y.at(p.y) + 4});
  std::string svg;
  for (const PlotPoint& p : sorted) {
    const double px = x.at(p.x), py = y.at(p.y);
    if (p.error > 0) svg += line(px, y.at(p.y - p.error), px, y.at(p.y + p.error), "stroke=\"#2c6fbb\"");
    svg += "<circle cx=\"" + number(px) + "\" cy=\"" + number(py) + "\" r=\"4\" fill=\"#2c6fbb\"/>\n";
    Box label{px + 9, px + 9 + kLetterWidth * static_cast<double>(p.label.size()), py + 4};
    const auto covers = [&](const Box& other) { return label.clashes(other); };
    for (auto other = std::ranges::find_if(taken, covers); other != taken.end();
         other = std::ranges::find_if(taken, covers))
      label.y = other->y + kLabelHeight;
    taken.push_back(label);
    if (label.y > py + 5) svg += line(px, py, px + 8, label.y - 4, "stroke=\"#999\"");
    svg += text(label.left, label.y, p.label);
  }
  return svg;
}

}  // namespace

std::string to_svg(const ScatterPlot& plot) {
  double x_low = 1e300, x_high = -1e300, y_low = plot.from_zero ? 0 : 1e300, y_high = -1e300;
  for (const PlotPoint& p : plot.points) {
    x_low = std::min(x_low, p.x), x_high = std::max(x_high, p.x);
    y_low = std::min(y_low, p.y - p.error), y_high = std::max(y_high, p.y + p.error);
  }
  if (plot.points.empty()) x_low = y_low = 0, x_high = y_high = 1;
  const Axis x(x_low, x_high, kLeft, kWidth - kRight);
  const Axis y(y_low, y_high, kHeight - kBottom, kTop);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(kWidth) + " " + number(kHeight) +
         "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n<rect width=\"100%\" "
         "height=\"100%\" "
         "fill=\"#fff\"/>\n" +
         text(kLeft, 28, plot.title, "font-size=\"18\" font-weight=\"bold\"") +
         text(kLeft, 50, plot.subtitle) + grid(plot, x, y) + curve(plot, x, y) + points(plot, x, y) +
         "</svg>\n";
}

}  // namespace cria::tools
