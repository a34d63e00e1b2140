#include "tools/report/plot.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "tools/terminal/terminal.h"

// Pieces of SVG pictures that can be read on light and dark backgrounds.
namespace cria::tools::svg {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '<'   ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '&' ? "&amp;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  return out;
}

std::string number(double value) { return fixed(value, 1); }

std::string line(double x1, double y1, double x2, double y2, const std::string& style) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) +
         "\" y2=\"" + number(y2) + "\" " + style + "/>\n";
}

std::string text(double x, double y, const std::string& words, const std::string& style = {}) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + style + ">" + escaped(words) +
         "</text>\n";
}

std::string picture(double width, double height, const std::string& body) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " +
         number(height) +
         "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
         "<style>@media (prefers-color-scheme: dark) {\n"
         "  svg { fill: #d0d7de } .paper { fill: #0d1117 } .grid { stroke: #30363d } .faint { "
         "stroke: "
         "#6e7681 }\n"
         "  .first { fill: #58a6ff } .second { fill: #6e7681 } .accent { fill: #ff7b72 } "
         ".accent-line { "
         "stroke: #ff7b72 }\n"
         "}</style>\n"
         "<rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" +
         body + "</svg>\n";
}

}  // namespace cria::tools::svg

namespace cria::tools {

namespace {

constexpr double kPlotWidth = 960, kSides = 60, kHead = 84, kPanel = 190, kBelow = 72,
                 kBarShare = 0.38;

/// The distance of marks: 1, 2 or 5 times a power of ten, at most six of them up to `highest`.
double mark_distance(double highest) {
  if (highest <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(highest / 6)));
  for (const double digit : {1.0, 2.0, 5.0})
    if (highest / (digit * power) <= 6) return digit * power;
  return 10 * power;
}

std::string bar(double x, double width, double height, double floor, const std::string& style) {
  return "<rect x=\"" + svg::number(x) + "\" y=\"" + svg::number(floor - height) + "\" width=\"" +
         svg::number(width) + "\" height=\"" + svg::number(height) + "\" " + style + "/>\n";
}

std::string panel_svg(const BarPanel& panel, double top) {
  double highest = 0;
  for (const BarPair& pair : panel.bars) highest = std::max({highest, pair.first, pair.second});
  const double distance = mark_distance(highest), floor = top + kPanel;
  const double scale = highest > 0 ? (kPanel - 12) / highest : 0;
  std::string out = svg::text(kSides, top - 4, panel.title, "font-weight=\"bold\"");
  for (int i = 0; i * distance <= highest; ++i) {
    const double y = floor - scale * i * distance;
    out += svg::line(kSides, y, kPlotWidth - kSides, y, "class=\"grid\" stroke=\"#e4e4e4\"");
    out += svg::text(kSides - 8, y + 4, fixed(i * distance, distance < 1 ? 1 : 0),
                     "text-anchor=\"end\"");
  }
  const double step =
      (kPlotWidth - 2 * kSides) / static_cast<double>(std::max<std::size_t>(1, panel.bars.size()));
  for (std::size_t i = 0; i < panel.bars.size(); ++i) {
    const BarPair& pair = panel.bars[i];
    const double middle = kSides + (static_cast<double>(i) + 0.5) * step, width = kBarShare * step;
    out +=
        bar(middle - width, width, scale * pair.first, floor, "class=\"first\" fill=\"#2c6fbb\"");
    out += bar(middle, width, scale * pair.second, floor, "class=\"second\" fill=\"#b0b7bf\"");
    out += svg::text(middle + 4, floor + 14, pair.label,
                     "text-anchor=\"end\" transform=\"rotate(-45 " + svg::number(middle + 4) + " " +
                         svg::number(floor + 14) + ")\"");
  }
  return out;
}

}  // namespace

std::string to_svg(const BarPlot& plot) {
  const double key = kPlotWidth - kSides - 220;
  std::string body = svg::text(kSides, 28, plot.title, "font-size=\"18\" font-weight=\"bold\"") +
                     svg::text(kSides, 48, plot.subtitle) +
                     bar(key, 12, 12, 32, "class=\"first\" fill=\"#2c6fbb\"") +
                     svg::text(key + 18, 31, plot.first_name) +
                     bar(key + 70, 12, 12, 32, "class=\"second\" fill=\"#b0b7bf\"") +
                     svg::text(key + 88, 31, plot.second_name);
  double top = kHead;
  for (const BarPanel& panel : plot.panels) {
    body += panel_svg(panel, top);
    top += kPanel + kBelow;
  }
  return svg::picture(kPlotWidth, top, body);
}

namespace {

using svg::line, svg::number, svg::text;

constexpr double kWidth = 960, kHeight = 640, kLeft = 80, kRight = 60, kTop = 70, kBottom = 60;
constexpr double kLabelHeight = 14, kLetterWidth = 7.5;

/// A round number with the decimals that it has.
std::string shortest(double value) {
  constexpr int kMost = 4;
  int decimals = 0;
  for (double power = 1;
       decimals < kMost && std::abs(std::round(value * power) / power - value) > 1e-7 * value;
       power *= 10)
    ++decimals;
  return fixed(value, decimals);
}

/// Values to pixels along one axis, with round marks.
class Axis {
 public:
  /// middle: the median of the values where one far above the others may squeeze them.
  Axis(double low, double high, double from, double to, std::optional<double> middle = std::nullopt)
      : log_(low > 0 && high > 1.5 * low), from_(from), to_(to) {
    constexpr double kFar = 8;  // times as far from the lowest as the median
    if (middle && *middle > low && high - low > kFar * (*middle - low)) {
      log_ = true;
      shift_ = low - (*middle - low);
      set_shifted_marks(low, high);
    } else {
      log_ ? set_log_marks(low, high) : set_linear_marks(low, high);
    }
  }
  [[nodiscard]] double at(double value) const {
    const double share = log_ ? std::log(std::max(value - shift_, 1e-300) / (low_ - shift_)) /
                                    std::log((high_ - shift_) / (low_ - shift_))
                              : (value - low_) / (high_ - low_);
    return from_ + share * (to_ - from_);
  }
  [[nodiscard]] bool holds(double value) const { return value >= low_ && value <= high_; }
  [[nodiscard]] const std::vector<double>& marks() const { return marks_; }
  [[nodiscard]] std::string text(double mark) const {
    if (shift_ != 0) return shortest(mark);
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
    static const std::vector<double> few = {1}, some = {1, 2, 5},
                                     many = {1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8};
    const double decades = std::log10(high_ / low_);
    const int first = static_cast<int>(std::floor(std::log10(low_))),
              last = static_cast<int>(std::floor(std::log10(high_)));
    for (int exponent = first; exponent <= last; ++exponent)
      for (const double digit : decades < 1 ? many : decades < 3 ? some : few)
        if (const double mark = digit * std::pow(10, exponent); holds(mark)) marks_.push_back(mark);
  }

  /// Round numbers, each so far from the one before that their texts keep clear.
  void set_shifted_marks(double low, double high) {
    constexpr double kApart = 30;  // pixels
    low_ = shift_ + (low - shift_) / 1.1, high_ = shift_ + (high - shift_) * 1.1;
    double mark = low_;
    while (mark <= high_) {
      double next = high_ * 2;
      for (double power = std::pow(10, std::floor(std::log10(high_)) - 5);
           next > high_ && power < 10 * high_; power *= 10)
        for (const double digit : {1.0, 2.0, 5.0}) {
          const double step = digit * power,
                       candidate = (std::floor(mark / step + 1e-9) + 1) * step;
          if (std::abs(at(candidate) - at(mark)) < kApart) continue;
          next = candidate;
          break;
        }
      mark = next;
      if (holds(mark)) marks_.push_back(mark);
    }
  }

  bool log_;
  int decimals_ = 0;
  double shift_ = 0;  // a logarithmic axis is one of the distance to this
  double from_, to_, low_ = 0, high_ = 1;
  std::vector<double> marks_;
};

std::string grid(const ScatterPlot& plot, const Axis& x, const Axis& y) {
  std::string out;
  for (const double mark : x.marks()) {
    out +=
        line(x.at(mark), kTop, x.at(mark), kHeight - kBottom, "class=\"grid\" stroke=\"#e4e4e4\"");
    out += text(x.at(mark), kHeight - kBottom + 18, x.text(mark), "text-anchor=\"middle\"");
  }
  for (const double mark : y.marks()) {
    out +=
        line(kLeft, y.at(mark), kWidth - kRight, y.at(mark), "class=\"grid\" stroke=\"#e4e4e4\"");
    out += text(kLeft - 8, y.at(mark) + 4, y.text(mark), "text-anchor=\"end\"");
  }
  out += text((kLeft + kWidth - kRight) / 2, kHeight - 16, plot.x_axis, "text-anchor=\"middle\"");
  const std::string middle = number((kTop + kHeight - kBottom) / 2);
  return out + text(20, (kTop + kHeight - kBottom) / 2, plot.y_axis,
                    "text-anchor=\"middle\" transform=\"rotate(-90 20 " + middle + ")\"");
}

/// The position of the curve's label, near its upper end; nullopt if the curve is outside.
std::optional<std::pair<double, double>> curve_label_place(const ScatterPlot& plot, const Axis& x,
                                                           const Axis& y) {
  for (const auto& [px, py] : plot.curve)
    if (x.holds(px) && y.holds(py)) return std::pair(x.at(px) + 12, y.at(py) + 10);
  return std::nullopt;
}

std::string curve(const ScatterPlot& plot, const Axis& x, const Axis& y) {
  std::string points;
  for (const auto& [px, py] : plot.curve) {
    if (!x.holds(px) || !y.holds(py)) continue;
    points += number(x.at(px)) + "," + number(y.at(py)) + " ";
  }
  const auto place = curve_label_place(plot, x, y);
  if (!place) return {};
  return "<polyline class=\"accent-line\" fill=\"none\" stroke=\"#c0392b\" stroke-dasharray=\"6 "
         "4\" "
         "points=\"" +
         points + "\"/>\n" +
         text(place->first, place->second, plot.curve_label, "class=\"accent\" fill=\"#c0392b\"");
}

/// An area that labels must not cover, one line high.
struct Box {
  double left, right, y;
  [[nodiscard]] bool clashes(const Box& other) const {
    return left < other.right && other.left < right && std::abs(y - other.y) < kLabelHeight;
  }
};

/// The free place nearest to the point at (px, py), right or left of it, up or down inside the
/// plot; the point itself if none is free.
Box placed(double px, double py, double width, const std::vector<Box>& taken) {
  const Box own{px + 8, px + 8 + width, py + 4};
  for (int step = 0; 3 * step < kHeight; ++step) {
    const double away = 3 * step;
    for (const double left : {px + 8, px - 8 - width})
      for (const double y : {py + 4 - away, py + 4 + away}) {
        const Box label{left, left + width, y};
        if (y < kTop + kLabelHeight || y > kHeight - kBottom - 3 || left < kLeft ||
            label.right > kWidth)
          continue;
        if (std::ranges::none_of(taken, [&](const Box& other) { return label.clashes(other); }))
          return label;
      }
  }
  return own;
}

/// Labels near their points.
std::string points(const ScatterPlot& plot, const Axis& x, const Axis& y) {
  std::vector<PlotPoint> sorted = plot.points;
  std::ranges::sort(sorted, [](const PlotPoint& a, const PlotPoint& b) { return a.y > b.y; });
  std::vector<Box> taken;
  taken.reserve(2 * sorted.size());
  for (const PlotPoint& p : sorted) {
    taken.push_back({x.at(p.x) - 5, x.at(p.x) + 5, y.at(p.y) + 4});
    if (p.error > 0)  // the bar, a line's height at a time
      for (double at = y.at(p.y + p.error); at < y.at(p.y - p.error); at += kLabelHeight)
        taken.push_back({x.at(p.x) - 2, x.at(p.x) + 2, at + 4});
  }
  if (const auto place = curve_label_place(plot, x, y); place && !plot.curve_label.empty())
    taken.push_back({place->first,
                     place->first + kLetterWidth * static_cast<double>(plot.curve_label.size()),
                     place->second});
  std::string out;
  for (const PlotPoint& p : sorted) {
    const double px = x.at(p.x), py = y.at(p.y);
    if (p.error > 0)
      out += line(px, y.at(p.y - p.error), px, y.at(p.y + p.error), "stroke=\"#2c6fbb\"");
    if (p.recommended)
      out += "<circle cx=\"" + number(px) + "\" cy=\"" + number(py) +
             "\" r=\"8\" fill=\"none\" stroke=\"#27ae60\" stroke-width=\"2\"/>\n";
    out += "<circle cx=\"" + number(px) + "\" cy=\"" + number(py) + "\" r=\"4\" " +
           (p.accent ? "class=\"accent\" fill=\"#c0392b\"" : "class=\"first\" fill=\"#2c6fbb\"") +
           "/>\n";
    const Box label = placed(px, py, kLetterWidth * static_cast<double>(p.label.size()), taken);
    taken.push_back(label);
    if (std::abs(label.y - py - 4) > 4)
      out += line(px, py, label.left > px ? label.left - 1 : label.right, label.y - 4,
                  "class=\"faint\" stroke=\"#bbb\"");
    out += text(label.left, label.y, p.label,
                p.recommended ? "font-weight=\"bold\" fill=\"#27ae60\"" : "");
  }
  return out;
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
  std::vector<double> heights;
  for (const PlotPoint& p : plot.points) heights.push_back(p.y);
  std::optional<double> middle;
  if (heights.size() >= 4) {
    std::ranges::nth_element(heights,
                             heights.begin() + static_cast<std::ptrdiff_t>(heights.size() / 2));
    middle = heights[heights.size() / 2];
  }
  const Axis y(y_low, y_high, kHeight - kBottom, kTop, middle);
  return svg::picture(kWidth, kHeight,
                      text(kLeft, 28, plot.title, "font-size=\"18\" font-weight=\"bold\"") +
                          text(kLeft, 50, plot.subtitle) + grid(plot, x, y) + curve(plot, x, y) +
                          points(plot, x, y));
}

}  // namespace cria::tools
