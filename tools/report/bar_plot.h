// Two values of each of several things as bars side by side, in an SVG file.
#pragma once

#include <string>
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

}  // namespace cria::tools
