// Advice of `cria sweep`: types whose errors overlap count as equal, and the smallest of them wins.
#include "tools/commands/sweep_report.h"

#include <gtest/gtest.h>

namespace cria::tools {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

SweepRow measured_row(const std::string& mix, std::uint64_t mib, Estimate ratio, Estimate decode) {
  SweepRow row;
  row.name = "model-" + mix;
  row.file_bytes = mib * kMiB;
  row.ppl = {10 * ratio.value, 0.1};
  row.ratio = ratio;
  row.decode = decode;
  return row;
}

SweepMachine machine_with(std::uint64_t mib) {
  SweepMachine machine;
  machine.cpu = "a processor";
  machine.threads = 2;
  machine.read_gbytes = 30;
  machine.available = mib * kMiB;
  return machine;
}

const std::vector<SweepRow> kRows = {
    measured_row("F16", 800, {1, 0}, {10, 0.1}),
    measured_row("Q8_0", 400, {1.001, 0.001}, {20, 0.5}),
    measured_row("Q5_K_M", 300, {1.005, 0.002}, {29.5, 0.5}),
    measured_row("Q4_K_M", 250, {1.009, 0.002}, {30, 0.5}),
    measured_row("IQ2_XS", 150, {1.3, 0.01}, {45, 0.5}),
};

TEST(SweepChoice, TakesTheSmallestOfEquallyFast) {
  const SweepChoice choice = sweep_choice(kRows, machine_with(10000));
  EXPECT_EQ(choice.candidates, 4U);
  EXPECT_EQ(choice.alike, (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(choice.best, 3U);
  EXPECT_NE(
      sweep_advice(kRows, machine_with(10000))
          .find("Q5_K_M, Q4_K_M decode equally fast within the error, and Q4_K_M is the smallest."),
      std::string::npos)
      << sweep_advice(kRows, machine_with(10000));
}

TEST(SweepChoice, SmallErrorsTellThemApart) {
  std::vector<SweepRow> rows = kRows;
  for (SweepRow& row : rows) row.decode.error = 0.1;
  std::swap(rows[2].decode, rows[3].decode);
  const SweepChoice choice = sweep_choice(rows, machine_with(10000));
  EXPECT_EQ(choice.alike, std::vector<std::size_t>{2});
  EXPECT_EQ(choice.best, 2U);
  EXPECT_NE(sweep_advice(rows, machine_with(10000)).find("it decodes fastest."), std::string::npos);
}

TEST(SweepChoice, AcceptsAnUnknownPrefillRate) {
  SweepMachine machine = machine_with(10000);
  EXPECT_NE(sweep_advice(kRows, machine).find("of what the read rate allows"), std::string::npos);
  machine.read_gbytes = 0;
  EXPECT_NE(sweep_advice(kRows, machine).find("decodes 30.0 tokens/s): of the 4 files that fit"),
            std::string::npos)
      << sweep_advice(kRows, machine);
}

TEST(SweepChoice, ComparesEqualLossesIfAllAreLarge) {
  std::vector<SweepRow> rows = kRows;
  for (SweepRow& row : rows) row.ratio = {row.ratio.value + 0.5, 0.002};
  const SweepChoice choice = sweep_choice(rows, machine_with(10000));
  EXPECT_EQ(choice.candidates, 0U);
  EXPECT_EQ(choice.alike, (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(choice.best, 2U);
}

TEST(SweepChoice, OnlyWhatFitsIntoMemoryAndWasMeasured) {
  EXPECT_FALSE(sweep_choice(kRows, machine_with(1)).best.has_value());
  EXPECT_NE(sweep_advice(kRows, machine_with(1)).find("No file fits"), std::string::npos);
  std::vector<SweepRow> rows = kRows;
  rows[3].error = "the disk is full";
  EXPECT_EQ(sweep_choice(rows, machine_with(10000)).best, 2U);
}

}  // namespace
}  // namespace cria::tools
