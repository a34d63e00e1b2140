// Plots as SVG files: bars, and points with labels.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace cria::tools {

struct BarPair {
  std::string label;
  double first, second;
};

/// One row of bars with an axis of its own, from 0.
struct BarPanel {
  std::string title;
  std::vector<BarPair> bars;
};

struct BarPlot {
  std::string title, subtitle, first_name, second_name;
  std::vector<BarPanel> panels;  ///< from top to bottom
};

std::string to_svg(const BarPlot& plot);

struct PlotPoint {
  double x, y, error;  ///< error: half the length of a vertical bar
  std::string label;
  bool recommended = false;  ///< drawn with a ring and a bold label
  bool accent = false;       ///< of a second kind, in the curve's colour
};

struct ScatterPlot {
  std::string title, subtitle, x_axis, y_axis;
  std::vector<PlotPoint> points;
  std::vector<std::pair<double, double>> curve;  ///< drawn behind the points, clipped to the plot
  std::string curve_label;
};

/// Axes are logarithmic where the values span more than a factor of 1.5. Where a few values are far
/// above all others, the y axis is logarithmic in the distance to the lowest, so that the others
/// are not squeezed. Labels keep clear of each other, of points, error bars and the curve's label.
std::string to_svg(const ScatterPlot& plot);

}  // namespace cria::tools
