// A scatter plot as an SVG file.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cria::tools {

struct PlotPoint {
  double x, y, error;  ///< error: half the length of a vertical bar
  std::string label;
  bool recommended = false;  ///< drawn with a ring and a bold label
};

struct ScatterPlot {
  std::string title, subtitle, x_axis, y_axis;
  std::vector<PlotPoint> points;
  std::vector<std::pair<double, double>> curve;  ///< drawn behind the points, where it is inside
  std::string curve_label;
};

/// Axes are logarithmic where the values span more than a factor of 1.5. Where a few values are far
/// above all others, the y axis is logarithmic in the distance to the lowest, so that the others
/// are not squeezed. Labels keep clear of each other, of points, error bars and the curve's label.
std::string to_svg(const ScatterPlot& plot);

}  // namespace cria::tools
