#include "tools/report/perplexity_report.h"

#include <nlohmann/json.hpp>

#include "model/plural.h"
#include "tools/report/json.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

using nlohmann::ordered_json;

std::string text(const Estimate& e, int decimals, double factor = 1) {
  return fixed(factor * e.value, decimals) + " ± " + fixed(factor * e.error, decimals);
}

std::string divergence_text(const DivergenceResult& d) {
  Table figures({"compared with the base", ""});
  figures.add({"perplexity of the base", text(d.base_ppl, 4)});
  figures.add({"ratio of perplexities", text(d.ratio, 5)});
  figures.add({"logarithm of the ratio", text(d.log_ratio, 5)});
  figures.add({"correlation of log p", fixed(100 * d.correlation, 2) + " %"});
  figures.add({"KL divergence", text(d.kld, 6)});
  figures.add({"same top token", text(d.same_top, 3, 100) + " %"});
  figures.add({"Δp, mean", text(d.delta_p, 3, 100) + " %"});
  figures.add({"Δp, root mean square", text(d.delta_p_rms, 3, 100) + " %"});
  Table shares({">quantile", ">KL divergence", ">Δp"});
  for (std::size_t i = 0; i < d.kld_quantiles.size(); ++i)
    shares.add({fixed(100 * d.kld_quantiles[i].share, 1) + " %", fixed(d.kld_quantiles[i].value, 6),
                fixed(100 * d.delta_p_quantiles[i].value, 3) + " %"});
  return "\n" + figures.text(stdout) + "\n" + shares.text(stdout);
}

ordered_json quantile_list(const std::vector<Quantile>& quantiles) {
  ordered_json list = ordered_json::array();
  for (const Quantile& q : quantiles) list.push_back({q.share, q.value});
  return list;
}

void add(ordered_json& object, const std::string& name, const Estimate& e) {
  object[name] = e.value;
  object[name + "_stderr"] = e.error;
}

}  // namespace

std::string perplexity_text(const PerplexityResult& result, const PerplexityOptions& options,
                            double tokens_per_second) {
  return "perplexity " + fixed(result.ppl, 4) + " ± " + fixed(result.ppl_stderr, 4) + " (" +
         counted(result.windows, "window") + " of " + counted(options.window, "token") +
         (options.stride == 0 ? "" : ", stride " + std::to_string(options.stride)) + ", " +
         std::to_string(result.tokens) + " scored, " + fixed(tokens_per_second, 1) +
         " tokens/s)\n" + (result.divergence ? divergence_text(*result.divergence) : "");
}

std::string perplexity_json(const PerplexityResult& result, const PerplexityOptions& options,
                            double tokens_per_second) {
  ordered_json object = {{"ppl", result.ppl},
                         {"ppl_stderr", result.ppl_stderr},
                         {"tokens", result.tokens},
                         {"chunks", result.windows},
                         {"window", options.window},
                         {"stride", options.stride},
                         {"tokens_per_second", tokens_per_second}};
  if (result.divergence) {
    const DivergenceResult& d = *result.divergence;
    add(object, "base_ppl", d.base_ppl);
    add(object, "ppl_ratio", d.ratio);
    add(object, "ln_ppl_ratio", d.log_ratio);
    object["correlation"] = d.correlation;
    add(object, "kld", d.kld);
    object["kld_quantiles"] = quantile_list(d.kld_quantiles);
    add(object, "same_top", d.same_top);
    add(object, "delta_p", d.delta_p);
    add(object, "delta_p_rms", d.delta_p_rms);
    object["delta_p_quantiles"] = quantile_list(d.delta_p_quantiles);
  }
  return json_text(object);
}

}  // namespace cria::tools
