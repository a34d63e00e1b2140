// A scatter plot as an SVG file.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cria::tools {

struct PlotPoint {
  double x, y, error;  ///< error: half the length of a vertical bar
  std::string label;
};

struct ScatterPlot {
  std::string title, subtitle, x_axis, y_axis;
  std::vector<PlotPoint> points;
  std::vector<std::pair<double, double>> curve;  ///< drawn behind the points, where it is inside
  std::string curve_label;
};

/// Axes are logarithmic where the values span more than a factor of 1.5; labels keep clear of each other and
/// of the points.
std::string to_svg(const ScatterPlot& plot);

}  // namespace cria::tools
