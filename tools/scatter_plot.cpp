#include "tools/scatter_plot.h"

#include <algorithm>
#include <cmath>

#include "tools/terminal.h"

namespace cria::tools {
namespace {

constexpr double kWidth = 960, kHeight = 640, kLeft = 80, kRight = 60, kTop = 70, kBottom = 60;
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
  Axis(double low, double high, double from, double to)
      : log_(low > 0 && high > 1.5 * low), from_(from), to_(to) {
    log_ ? set_log_marks(low, high) : set_linear_marks(low, high);
  }
  [[nodiscard]] double at(double value) const {
    const double share =
        log_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
    return from_ + share * (to_ - from_);
  }
  [[nodiscard]] bool holds(double value) const { return value >= low_ && value <= high_; }
  [[nodiscard]] const std::vector<double>& marks() const { return marks_; }
  [[nodiscard]] std::string text(double mark) const {
    const bool whole = std::abs(mark - std::round(mark)) < 1e-9 * std::abs(mark);
    return fixed(mark, whole  ? 0
                       : log_ ? std::max(1, 1 - static_cast<int>(std::floor(std::log10(mark))))
                              : decimals_);
  }

 private:
  void set_linear_marks(double low, double high) {
    const double span = high > low ? high - low : std::max(std::abs(high), 1.0);
    const double power = std::pow(10, std::floor(std::log10(span / 6)));
    double step = power;
    for (const double digit : {1.0, 2.0, 5.0, 10.0}) {
      step = digit * power;
      if (span / step <= 8) break;
    }
    low_ = std::floor(low / step) * step;
    high_ = std::ceil((high > low ? high : low + span) / step) * step;
    for (int i = 0; low_ + i * step <= high_ + step / 2; ++i) marks_.push_back(low_ + i * step);
    decimals_ = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  }
  void set_log_marks(double low, double high) {
    constexpr double kMargin = 1.1;
    low_ = low / kMargin, high_ = high * kMargin;
    static const std::vector<double> few = {1}, some = {1, 2, 5}, many = {1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8};
    const double decades = std::log10(high_ / low_);
    const int first = static_cast<int>(std::floor(std::log10(low_))),
              last = static_cast<int>(std::floor(std::log10(high_)));
    for (int exponent = first; exponent <= last; ++exponent)
      for (const double digit : decades < 1 ? many : decades < 3 ? some : few)
        if (const double mark = digit * std::pow(10, exponent); holds(mark)) marks_.push_back(mark);
  }

  bool log_;
  int decimals_ = 0;
  double from_, to_, low_ = 0, high_ = 1;
  std::vector<double> marks_;
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

/// The free place nearest to the point at (px, py), right or left of it, up or down inside the plot; on it
/// where none is free.
Box placed(double px, double py, double width, const std::vector<Box>& taken) {
  const Box own{px + 8, px + 8 + width, py + 4};
  for (int step = 0; 3 * step < kHeight; ++step) {
    const double away = 3 * step;
    for (const double left : {px + 8, px - 8 - width})
      for (const double y : {py + 4 - away, py + 4 + away}) {
        const Box label{left, left + width, y};
        if (y < kTop + kLabelHeight || y > kHeight - kBottom - 3 || left < kLeft || label.right > kWidth)
          continue;
        if (std::ranges::none_of(taken, [&](const Box& other) { return label.clashes(other); })) return label;
      }
  }
  return own;
}

/// Labels beside their points.
std::string points(const ScatterPlot& plot, const Axis& x, const Axis& y) {
  std::vector<PlotPoint> sorted = plot.points;
  std::ranges::sort(sorted, [](const PlotPoint& a, const PlotPoint& b) { return a.y > b.y; });
  std::vector<Box> taken;
  taken.reserve(2 * sorted.size());
  for (const PlotPoint& p : sorted) taken.push_back({x.at(p.x) - 5, x.at(p.x) + 5, y.at(p.y) + 4});
  std::string svg;
  for (const PlotPoint& p : sorted) {
    const double px = x.at(p.x), py = y.at(p.y);
    if (p.error > 0) svg += line(px, y.at(p.y - p.error), px, y.at(p.y + p.error), "stroke=\"#2c6fbb\"");
    svg += "<circle cx=\"" + number(px) + "\" cy=\"" + number(py) + "\" r=\"4\" fill=\"#2c6fbb\"/>\n";
    const Box label = placed(px, py, kLetterWidth * static_cast<double>(p.label.size()), taken);
    taken.push_back(label);
    if (std::abs(label.y - py - 4) > 4)
      svg += line(px, py, label.left > px ? label.left - 1 : label.right, label.y - 4, "stroke=\"#bbb\"");
    svg += text(label.left, label.y, p.label);
  }
  return svg;
}

}  // namespace

std::string to_svg(const ScatterPlot& plot) {
  double x_low = 1e300, x_high = -1e300, y_low = 1e300, y_high = -1e300;
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
