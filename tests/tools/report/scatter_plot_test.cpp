#include "tools/report/plot.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <sstream>

namespace cria::tools {
namespace {

struct PlacedLabel {
  double x, y;
};

std::vector<PlacedLabel> labels_of(const std::string& svg) {
  std::vector<PlacedLabel> labels;
  std::istringstream lines(svg);
  for (std::string line; std::getline(lines, line);) {
    PlacedLabel label{};
    if (std::sscanf(line.c_str(), R"(<text x="%lf" y="%lf" >label)", &label.x, &label.y) == 2 &&
        line.find(">label") != std::string::npos)
      labels.push_back(label);
  }
  return labels;
}

TEST(ScatterPlot, LabelsOfCrowdedPointsKeepClear) {
  ScatterPlot plot{};
  for (int i = 0; i < 32; ++i)
    plot.points.push_back({5 + 0.01 * i, 34.5 + 1e-3 * (i % 7), 0, "label" + std::to_string(i)});
  const std::vector<PlacedLabel> labels = labels_of(to_svg(plot));
  ASSERT_EQ(labels.size(), 32U);
  for (std::size_t i = 0; i < labels.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_TRUE(std::abs(labels[i].x - labels[j].x) > 40 ||
                  std::abs(labels[i].y - labels[j].y) > 13.8)
          << i << " " << j;
}

TEST(ScatterPlot, MoreLabelsThanThereIsRoomForEnd) {
  ScatterPlot plot{};
  for (int i = 0; i < 300; ++i) plot.points.push_back({1, 1, 0, "label" + std::to_string(i)});
  EXPECT_EQ(labels_of(to_svg(plot)).size(), 300U);
}

TEST(ScatterPlot, WideRangesHaveLogarithmicAxes) {
  ScatterPlot plot{};
  for (const double x : {2.0, 4.0, 8.0}) plot.points.push_back({x, 1 / x, 0, "label"});
  const std::string svg = to_svg(plot);
  const std::vector<PlacedLabel> labels = labels_of(svg);
  ASSERT_EQ(labels.size(), 3U);
  EXPECT_NEAR(labels[1].x - labels[0].x, labels[2].x - labels[1].x, 0.11);
  EXPECT_NE(svg.find(">0.20</text>"), std::string::npos) << svg;
  EXPECT_NE(svg.find(">5</text>"), std::string::npos) << svg;
}

TEST(ScatterPlot, OnePointNoPointsAndZeroHaveAnAxis) {
  for (const std::vector<PlotPoint>& points : {std::vector<PlotPoint>{},
                                               {{3, 3, 0, "label"}},
                                               {{0, 0, 0, "label"}, {0, 100, 1, "label"}}}) {
    ScatterPlot plot{};
    plot.points = points;
    const std::string svg = to_svg(plot);
    EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
    EXPECT_EQ(svg.find("inf"), std::string::npos) << svg;
  }
}

}  // namespace
}  // namespace cria::tools
