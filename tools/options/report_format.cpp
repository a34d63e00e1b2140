#include "tools/options/report_format.h"

namespace cria::tools {

void add_report_options(CLI::App& command, BenchFormat& format) {
  const auto add = [&](const char* name, BenchFormat named, const char* help) {
    return command.add_flag_callback(
        name, [&format, named] { format = named; }, help);
  };
  CLI::Option* const json = add("--json", BenchFormat::Json, "an array of objects");
  CLI::Option* const csv = add("--csv", BenchFormat::Csv, "comma-separated values");
  CLI::Option* const markdown = add("--md", BenchFormat::Markdown, "a Markdown table");
  json->excludes(csv)->excludes(markdown);
  csv->excludes(markdown);
}

}  // namespace cria::tools
