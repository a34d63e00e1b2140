// What `cria bench` measured, and how it is shown.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "tools/report/gather_report.h"
#include "tools/report/roofline.h"

namespace cria::tools {

/// One measured line: a test of a model on a number of threads.
struct BenchRow {
  std::string model;           ///< file or SHAPE:TYPE
  std::string dtype;           ///< the type most weights have
  std::uint64_t weight_bytes;  ///< bytes of weights that one decoded token reads
  unsigned threads;
  std::string test;          ///< "pp512", "tg128", with depth "tg128@d4096"
  double tokens_per_second;  ///< mean over the repetitions
  double stddev;
  double gbytes_per_second;  ///< weights read per second (decode)
  double gmac_per_second;    ///< multiply-adds per second
  double roofline_fraction;  ///< tg: of the read rate; pp: of the multiply-add peak; negative: not
                             ///< measured
  std::optional<GatherReport> gathers;  ///< where several ranks have computed
};

enum class BenchFormat { Table, Markdown, Csv, Json };
void print_report(std::ostream& out, BenchFormat format, const std::vector<BenchRow>& rows);

/// "read 30.1 GB/s, int8 dot …", those that there are.
std::string roofline_text(const Roofline& limits);

}  // namespace cria::tools
