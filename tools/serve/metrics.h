// The counters of `cria serve`, and their text for Prometheus (format 0.0.4).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace cria::serve {

/// A number that any thread changes and any reads.
class Count {
 public:
  void add(std::uint64_t n = 1) noexcept { value_.fetch_add(n, std::memory_order_relaxed); }
  void set(std::uint64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t value() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// One of the parts that a gauge is the sum of. Its owner uses one thread at a time.
class GaugePart {
 public:
  explicit GaugePart(Count& sum) : sum_(sum) {}
  ~GaugePart() { set(0); }
  GaugePart(const GaugePart&) = delete;
  GaugePart& operator=(const GaugePart&) = delete;
  void set(std::uint64_t n) noexcept {
    sum_.add(n - value_);  // modulo 2^64, if it shrinks
    value_ = n;
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  Count& sum_;
  std::uint64_t value_ = 0;
};

/// A histogram of times with bounds from a millisecond to 600 s.
class Histogram {
 public:
  static constexpr std::array kBounds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,  0.2,  0.5,
                                         1.0,   2.0,   5.0,   10.0, 20.0, 50.0, 100., 200., 600.};
  void observe(double seconds) noexcept;
  /// Its lines: buckets, sum, count.
  [[nodiscard]] std::string text(std::string_view name) const;

 private:
  mutable std::mutex mutex_;  // so that a reader sees buckets, sum and count of one moment
  std::array<std::uint64_t, kBounds.size() + 1> counts_{};
  double sum_ = 0;
};

/// All counters. The transport counts requests and, from their records, tokens and times; the
/// models' services keep parts of the gauges, and `steps`; the pool of models counts these.
class Metrics {
 public:
  Count requests_cancelled, prompt_tokens, prompt_tokens_cached, completion_tokens;
  Histogram time_to_first_token, time_per_output_token, request_seconds;

  Count steps;                               ///< passes over the weights
  Count requests_running, requests_waiting;  ///< gauges
  Count kv_positions, kv_positions_used;     ///< gauges; the first is slots × context
  Count models_loaded;                       ///< gauge
  Count model_loads, model_unloads;

  void count_request(std::string_view endpoint, int status);
  void set_build(std::string version, std::string model);
  [[nodiscard]] std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::uint64_t> requests_;
  std::string version_, model_;
};

}  // namespace cria::serve
