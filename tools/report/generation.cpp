#include "tools/report/generation.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "model/plural.h"
#include "tools/report/gather_report.h"
#include "tools/report/table.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

void print_profile(const std::vector<NodeTime>& times, const ModelOptions& options) {
  if (!options.profile) return;
  std::vector<std::pair<std::string, double>> sums;  // in the graph's order, layers taken together
  double total = 0;
  for (const NodeTime& time : times) {
    const Node* const node = time.node;
    const double seconds = time.seconds;
    const std::string label =
        name_of_all_layers(node->name) + " (" + std::string(name(node->op)) + ")";
    const auto found =
        std::find_if(sums.begin(), sums.end(), [&](const auto& sum) { return sum.first == label; });
    if (found == sums.end())
      sums.emplace_back(label, seconds);
    else
      found->second += seconds;
    total += seconds;
  }
  Table table({"node", ">ms", ">%"});
  for (const auto& [label, seconds] : sums)
    table.add({label, fixed(1e3 * seconds, 2), fixed(100 * seconds / total, 1)});
  table.add({"all", fixed(1e3 * total, 2), "100.0"});
  std::fputs(table.text(stderr).c_str(), stderr);
}

std::size_t decoded_tokens(const GenerateResult& result) {
  const std::size_t drawn = result.tokens.size() + (result.end_token ? 1 : 0);
  return drawn - std::min<std::size_t>(drawn, 1);
}

std::string speed_line(const GenerateResult& result) {
  const auto part = [](std::size_t n, std::size_t timed, double seconds) {
    const bool known = timed > 0 && seconds > 0;
    return counted(n, "token") +
           (known ? ", " + fixed(static_cast<double>(timed) / seconds, 1) + " tokens/s" : "");
  };
  return part(result.tokens.size(), decoded_tokens(result), result.decode_seconds) + "; prompt " +
         part(result.prompt_tokens, result.prompt_tokens, result.prompt_seconds) +
         (result.cached_tokens > 0
              ? " (and " + std::to_string(result.cached_tokens) + " evaluated before)"
              : "") +
         (result.drafted > 0 ? "; " + std::to_string(result.kept) + " of " +
                                   counted(result.drafted, "guess", "guesses") + " right"
                             : "");
}

std::string no_answer_note(const GenerateResult& result) {
  const bool cut = result.reason == StopReason::Length;
  return "cria: note: there is no answer: the model was still thinking at its end" +
         std::string(cut ? " (-n N allows more tokens, --no-think may make it answer at once)"
                         : "");
}

std::function<void(std::size_t done, std::size_t total)> reading_progress() {
  return [bar = std::make_shared<std::optional<Progress>>()](std::size_t done, std::size_t total) {
    if (!*bar) bar->emplace("reading", "tokens", total);
    (*bar)->update(done);
    if (done == total) bar->reset();
  };
}

}  // namespace cria::tools
