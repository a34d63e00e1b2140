#include "tools/report/plot.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <sstream>

namespace cria::tools {
namespace {

std::vector<double> bar_heights(const std::string& svg) {
  std::vector<double> heights;
  std::istringstream lines(svg);
  for (std::string text; std::getline(lines, text);) {
    double height = 0;
    if (std::sscanf(text.c_str(), R"(<rect x="%*f" y="%*f" width="%*f" height="%lf")", &height) ==
        1)
      heights.push_back(height);
  }
  heights.erase(heights.begin(), heights.begin() + 2);  // the legend's bars
  return heights;
}

TEST(BarPlot, HeightsAreInProportionWithinAPanel) {
  const BarPlot plot{
      .title = "a < b",
      .subtitle = {},
      .first_name = "x",
      .second_name = "y",
      .panels = {{"one", {{"p", 10, 5}, {"q", 2.5, 0}}}, {"two", {{"r", 1000, 1000}}}}};
  const std::string svg = to_svg(plot);
  const std::vector<double> heights = bar_heights(svg);
  ASSERT_EQ(heights.size(), 6U);
  EXPECT_NEAR(heights[0], 2 * heights[1], 0.11);
  EXPECT_NEAR(heights[0], 4 * heights[2], 0.21);
  EXPECT_EQ(heights[3], 0);
  EXPECT_EQ(heights[4], heights[0]);  // each panel has an axis of its own
  EXPECT_EQ(heights[5], heights[4]);
  EXPECT_NE(svg.find(">a &lt; b</text>"), std::string::npos);
  EXPECT_NE(svg.find("prefers-color-scheme: dark"), std::string::npos);
}

TEST(BarPlot, DrawsEmptyAndZeroPlots) {
  for (const std::vector<BarPair>& bars : {std::vector<BarPair>{}, {{"p", 0, 0}}}) {
    const std::string svg = to_svg({{}, {}, {}, {}, {{"one", bars}}});
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
    EXPECT_NE(svg.find("</svg>"), std::string::npos);
  }
}

}  // namespace
}  // namespace cria::tools
