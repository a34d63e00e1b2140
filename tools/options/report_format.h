// The form of a report of figures.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/report/bench_report.h"

namespace cria::tools {

/// --json, --csv, --md, one of them. format: outlives the command's parsing.
void add_report_options(CLI::App& command, BenchFormat& format);

}  // namespace cria::tools
