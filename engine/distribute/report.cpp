#include "engine/distribute/report.h"

#include <algorithm>
#include <cstring>

#include "engine/distribute/file_parts.h"
#include "engine/graph/graph.h"
#include "engine/model.h"
#include "engine/session/fingerprint.h"
#include "model/error.h"

namespace cria {
namespace {

template <std::size_t N>
void set_text(char (&to)[N], std::string_view text) {
  const std::size_t n = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
}

std::string difference(const RankReport& first, const RankReport& other) {
  if (std::strcmp(first.version, other.version) != 0)
    return std::string("another version of the program: expected ") + first.version + ", got " +
           other.version;
  if (first.weights != other.weights) return "another model: its tensors are not those of rank 0's file";
  if (first.graph != other.graph)
    return "computes the model in another way than rank 0: its processor, CRIA_ISA or its file's keys differ";
  return "";
}

}  // namespace

RankReport report_of(const Ranks& ranks, std::string_view version) {
  RankReport report;
  set_text(report.host, ranks.host());
  set_text(report.version, version);
  return report;
}

void set_error(RankReport& report, std::string_view error) {
  set_text(report.error, error.empty() ? "failed" : error);
}

void describe(RankReport& report, const Model& model) {
  read_nothing_ahead(model);
  report.weights = fingerprint(model);
  Hash hash;
  hash.add_number(fingerprint(model, model.graph(), 0));
  const std::string graph = model.graph().to_string();  // with the forms of values, which travel
  hash.add(graph.data(), graph.size());
  report.graph = hash.value();
}

std::vector<RankReport> exchange(Ranks& ranks, const RankReport& own, Patience patience) {
  std::vector<RankReport> all(ranks.size());
  all[ranks.rank()] = own;
  std::vector<std::size_t> begin;
  for (std::size_t i = 0; i <= all.size(); ++i) begin.push_back(i * sizeof(RankReport));
  ranks.gather(reinterpret_cast<std::byte*>(all.data()), begin, patience);
  return all;
}

void expect_agreement(const std::vector<RankReport>& reports) {
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const RankReport& report = reports[i];
    const std::string wrong = report.failed() ? report.error : difference(reports[0], report);
    if (!wrong.empty()) throw Error("rank " + std::to_string(i) + " on " + report.host + ": " + wrong);
  }
}

}  // namespace cria
