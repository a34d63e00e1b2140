#include "tools/report/bar_plot.h"

#include <algorithm>
#include <cmath>

#include "tools/report/svg.h"
#include "tools/terminal/terminal.h"

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

}  // namespace cria::tools
