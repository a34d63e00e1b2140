#include "tools/commands/tune.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/execute/machine.h"
#include "model/gguf/gguf.h"
#include "tools/commands/bench_passes.h"
#include "tools/report/roofline.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

using TuneClock = std::chrono::steady_clock;

/// Minimum gain of another setting; less is chance. Copying a file costs memory and time at each
/// start.
constexpr double kWorthIt = 1.03, kWorthCopying = 1.10;

class Tuner {
 public:
  Tuner(const std::string& path, const TuneHow& how)
      : how_(how),
        mapped_(load(path, false)),
        tokens_(random_tokens(*mapped_, std::max(how.prompt, how.decode))) {
    result_.usual = result_.best = {.threads = usable_cores()};
  }

  TuneResult run(const std::string& path) {
    try_copying(path);
    const std::vector<unsigned> threads =
        threads_to_try(result_.usual.threads, std::thread::hardware_concurrency());
    choose(false, kWorthIt, threads.size(),
           [&](TuneWay& way, std::size_t i) { way.threads = threads[i]; });
    // A prompt waits for arithmetic: fewer threads than there are cores cannot help it.
    std::vector<unsigned> more{result_.best.threads};
    for (const unsigned n : threads)
      if (n != more[0] && n >= result_.usual.threads) more.push_back(n);
    choose(true, kWorthIt, more.size(),
           [&](TuneWay& way, std::size_t i) { way.threads_prefill = more[i]; });
    std::vector<std::uint32_t> batches{result_.usual.batch};
    for (const std::uint32_t batch : {256U, 1024U, 2048U})
      if (batch <= how_.prompt) batches.push_back(batch);
    choose(true, kWorthIt, batches.size(),
           [&](TuneWay& way, std::size_t i) { way.batch = batches[i]; });
    compare();
    return std::move(result_);
  }

 private:
  struct Candidate {
    TuneWay way;
    std::unique_ptr<Session> session;
    std::vector<double> rates;  ///< tokens/s of each round
  };

  static std::shared_ptr<const Model> load(const std::string& path, bool copied) {
    return Model::load(path, {.mmap = !copied, .mlock = false, .pre_tokenizer = {}});
  }

  void try_copying(const std::string& path) {
    const std::uint64_t bytes = mapped_->file().file_bytes();
    if (available_memory() < bytes + bytes / 8) return;
    const auto start = TuneClock::now();
    copied_ = load(path, true);
    result_.copy_seconds = std::chrono::duration<double>(TuneClock::now() - start).count();
    choose(false, kWorthCopying, 2, [](TuneWay& way, std::size_t i) { way.copied = i == 1; });
    if (!result_.best.copied) copied_.reset();
  }

  Candidate candidate(const TuneWay& way) const {
    SessionOptions options;
    options.n_ctx = static_cast<std::uint32_t>(tokens_.size());
    options.n_batch = way.batch;
    options.threads = way.threads;
    options.threads_prefill = way.threads_prefill;
    options.kv_type = how_.kv_type;
    return {way, std::make_unique<Session>(way.copied ? *copied_ : *mapped_, options), {}};
  }

  double rate(const Candidate& candidate, bool prompt, std::size_t n) const {
    return how_.rate ? how_.rate(candidate.way, prompt) : timed_rate(*candidate.session, prompt, n);
  }

  double timed_rate(Session& session, bool prompt, std::size_t n) const {
    session.truncate(0);
    const auto start = TuneClock::now();
    if (prompt) {
      session.eval(std::span(tokens_).first(n));
    } else {
      for (std::size_t i = 0; i < n; ++i) {
        if (catch_interrupts()) throw Interrupted();
        session.eval(std::span(tokens_).subspan(i, 1));
      }
    }
    if (catch_interrupts()) throw Interrupted();
    return static_cast<double>(n) / std::chrono::duration<double>(TuneClock::now() - start).count();
  }

  /// All in turn, round by round, after a first short one that does not count.
  void measure(std::vector<Candidate>& candidates, bool prompt) {
    const std::size_t n = prompt ? how_.prompt : how_.decode;
    const std::string test = (prompt ? "pp" : "tg") + std::to_string(n);
    Progress progress("tuning " + test, "runs", candidates.size() * how_.rounds);
    std::size_t done = 0;
    for (Candidate& each : candidates)
      rate(each, prompt, std::min<std::size_t>(n, prompt ? n / 4 + 1 : 4));
    for (unsigned round = 0; round < how_.rounds; ++round)
      for (Candidate& each : candidates) {
        each.rates.push_back(rate(each, prompt, n));
        progress.update(++done);
      }
    for (const Candidate& each : candidates)
      result_.tries.push_back({each.way, test, median(each.rates)});
  }

  static double gain(const Candidate& usual, const Candidate& other) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < usual.rates.size(); ++i)
      ratios.push_back(other.rates[i] / usual.rates[i]);
    return median(ratios);
  }

  /// Makes the best of n ways the best known one; set(way, i) makes it the i-th, of which the first
  /// is the one to beat.
  void choose(bool prompt, double worth_it, std::size_t n,
              const std::function<void(TuneWay&, std::size_t)>& set) {
    if (n < 2) return;
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i < n; ++i) {
      TuneWay way = result_.best;
      set(way, i);
      candidates.push_back(candidate(way));
    }
    measure(candidates, prompt);
    double most = worth_it;
    for (const Candidate& other : candidates)
      if (const double times = gain(candidates[0], other); times > most)
        most = times, result_.best = other.way;
  }

  /// Measures the gain of all changes together.
  void compare() {
    for (const bool prompt : {true, false}) {
      std::vector<Candidate> both;
      both.push_back(candidate(result_.usual));
      both.push_back(candidate(result_.best));
      measure(both, prompt);
      (prompt ? result_.usual_prompt : result_.usual_decode) = median(both[0].rates);
      (prompt ? result_.best_prompt : result_.best_decode) = median(both[1].rates);
    }
    if (result_.best_prompt > kWorthIt * result_.usual_prompt ||
        result_.best_decode > kWorthIt * result_.usual_decode)
      return;
    result_.best = result_.usual;
    result_.best_prompt = result_.usual_prompt;
    result_.best_decode = result_.usual_decode;
  }

  const TuneHow& how_;
  std::shared_ptr<const Model> mapped_, copied_;
  std::vector<TokenId> tokens_;
  TuneResult result_;
};

Json way_json(const TuneWay& way) {
  return {{"threads", way.threads},
          {"threads_prefill", way.threads_prefill == 0 ? way.threads : way.threads_prefill},
          {"batch", way.batch},
          {"no_mmap", way.copied}};
}

}  // namespace

TunedOptions TuneResult::options() const {
  TunedOptions options;
  const unsigned prefill = best.threads_prefill == 0 ? best.threads : best.threads_prefill;
  if (best.threads != usual.threads) options["threads"] = std::to_string(best.threads);
  if (prefill != best.threads) {
    options["threads"] = std::to_string(best.threads);
    options["threads-prefill"] = std::to_string(prefill);
  }
  if (best.batch != usual.batch) options["batch"] = std::to_string(best.batch);
  if (best.copied) options["no-mmap"] = "true";
  return options;
}

std::vector<unsigned> threads_to_try(unsigned cores, unsigned processors) {
  std::vector<unsigned> counts{cores};
  for (const unsigned n : {cores / 4, cores / 2, cores - cores / 4, cores - 1, processors})
    if (n != 0 && std::ranges::find(counts, n) == counts.end()) counts.push_back(n);
  return counts;
}

TuneResult tune(const std::string& path, const TuneHow& how) { return Tuner(path, how).run(path); }

std::string tune_line(const std::string& label, const TuneResult& result) {
  const TunedOptions options = result.options();
  const std::string where = label + " on this machine (" + machine_label() + ")";
  if (options.empty())
    return "the defaults are best for " + where + ": prompts " + fixed(result.best_prompt, 1) +
           ", decoding " + fixed(result.best_decode, 1) + " tokens/s";
  std::string text = "best for " + where + ": " + typed_options(options) + ": prompts " +
                     fixed(result.usual_prompt, 1) + " -> " + fixed(result.best_prompt, 1) +
                     ", decoding " + fixed(result.usual_decode, 1) + " -> " +
                     fixed(result.best_decode, 1) + " tokens/s";
  if (result.best.copied)
    text += " (each start reads the whole file: " + fixed(result.copy_seconds, 1) + " s here)";
  return text;
}

Json tune_json(const std::string& label, const TuneResult& result) {
  auto tries = Json::array();
  for (const TuneTry& each : result.tries) {
    Json row = way_json(each.way);
    row["test"] = each.test;
    row["tokens_per_second"] = each.tokens_per_second;
    tries.push_back(std::move(row));
  }
  return {{"model", label},
          {"machine", machine_label()},
          {"best", way_json(result.best)},
          {"options", typed_options(result.options())},
          {"prompt_tokens_per_second",
           {{"default", result.usual_prompt}, {"best", result.best_prompt}}},
          {"decode_tokens_per_second",
           {{"default", result.usual_decode}, {"best", result.best_decode}}},
          {"copy_seconds", result.copy_seconds},
          {"tries", tries}};
}

}  // namespace cria::tools
