#include "tools/serve/metrics.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <sstream>

namespace cria::serve {
namespace {

std::string decimal(double value) {
  char text[32];
  return {text, std::to_chars(std::begin(text), std::end(text), value).ptr};
}

/// A label's value: what would end it is escaped.
std::string escaped_label(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

std::string head(std::string_view name, std::string_view type, std::string_view help) {
  std::ostringstream out;
  out << "# HELP " << name << ' ' << help << "\n# TYPE " << name << ' ' << type << '\n';
  return out.str();
}

std::string plain(std::string_view name, std::string_view type, std::string_view help,
                  std::string_view value) {
  return head(name, type, help).append(name).append(" ").append(value).append("\n");
}

std::string plain(std::string_view name, std::string_view type, std::string_view help,
                  const Count& count) {
  return plain(name, type, help, std::to_string(count.value()));
}

/// Bytes of this process in memory; 0 if unknown.
std::uint64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  in >> total >> resident;
  return in ? resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

/// Seconds since the epoch at which the program was loaded, near enough.
const double process_start =
    std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();

}  // namespace

void Histogram::observe(double seconds) noexcept {
  const auto at =
      static_cast<std::size_t>(std::ranges::lower_bound(kBounds, seconds) - kBounds.begin());
  const std::lock_guard lock(mutex_);
  ++counts_[at];
  sum_ += seconds;
}

std::string Histogram::text(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  std::ostringstream out;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    out << name << "_bucket{le=\"" << (i < kBounds.size() ? decimal(kBounds[i]) : "+Inf") << "\"} "
        << below << '\n';
  }
  out << name << "_sum " << decimal(sum_) << '\n' << name << "_count " << below << '\n';
  return out.str();
}

void Metrics::count_request(std::string_view endpoint, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{std::string(endpoint), status}];
}

void Metrics::set_build(std::string version, std::string model) {
  const std::lock_guard lock(mutex_);
  version_ = std::move(version);
  model_ = std::move(model);
}

std::string Metrics::text() const {
  std::ostringstream out;
  {
    const std::lock_guard lock(mutex_);
    out << head("cria_requests_total", "counter", "Requests answered, by endpoint and status.");
    for (const auto& [key, count] : requests_)
      out << "cria_requests_total{endpoint=\"" << escaped_label(key.first) << "\",status=\""
          << key.second << "\"} " << count << '\n';
    out << head("cria_build_info", "gauge", "The program's version and the model that is served.")
        << "cria_build_info{version=\"" << escaped_label(version_) << "\",model=\""
        << escaped_label(model_) << "\"} 1\n";
  }
  out << plain("cria_requests_cancelled_total", "counter",
               "Requests whose client left before the answer's end.", requests_cancelled)
      << plain("cria_requests_running", "gauge", "Requests that are read or written now.",
               requests_running)
      << plain("cria_requests_waiting", "gauge", "Requests that wait for a slot or a model.",
               requests_waiting)
      << plain("cria_prompt_tokens_total", "counter", "Tokens of prompts, read or reused.",
               prompt_tokens)
      << plain("cria_prompt_tokens_cached_total", "counter", "Tokens of prompts that were reused.",
               prompt_tokens_cached)
      << plain("cria_completion_tokens_total", "counter", "Tokens drawn.", completion_tokens)
      << plain("cria_steps_total", "counter", "Passes over the weights.", steps)
      << plain("cria_kv_positions", "gauge", "Positions of keys and values: slots times context.",
               kv_positions)
      << plain("cria_kv_positions_used", "gauge", "Positions that requests hold now.",
               kv_positions_used)
      << plain("cria_models_loaded", "gauge", "Models in memory.", models_loaded)
      << plain("cria_model_loads_total", "counter", "Models loaded.", model_loads)
      << plain("cria_model_unloads_total", "counter", "Models unloaded.", model_unloads);
  const auto histogram = [&out](std::string_view name, std::string_view help,
                                const Histogram& values) {
    out << head(name, "histogram", help) << values.text(name);
  };
  histogram("cria_time_to_first_token_seconds", "From a request's arrival to its first token.",
            time_to_first_token);
  histogram("cria_time_per_output_token_seconds", "Mean time between the tokens of an answer.",
            time_per_output_token);
  histogram("cria_request_seconds", "From a request's arrival to the end of its answer.",
            request_seconds);
  out << plain("process_resident_memory_bytes", "gauge", "Bytes of the process in memory.",
               std::to_string(resident_bytes()))
      << plain("process_start_time_seconds", "gauge",
               "Start of the process, seconds since the epoch.", decimal(process_start));
  return out.str();
}

}  // namespace cria::serve
