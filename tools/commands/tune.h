// The search of `cria bench --tune`: pages, threads and batch in turn, each compared with the best
// so far.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/session.h"
#include "model/file/json.h"
#include "tools/cli/settings.h"

namespace cria::tools {

/// A way to run a model. Zero threads for prompts: as many as for decoding.
struct TuneWay {
  unsigned threads = 1, threads_prefill = 0;
  std::uint32_t batch = 512;
  bool copied = false;  ///< into memory, in huge pages if granted
};

struct TuneHow {
  std::size_t prompt = 1024, decode = 32;  ///< tokens of a measurement
  unsigned rounds = 3;                     ///< measurements of each way, all ways in turn
  KvType kv_type{};
  /// Tokens/s of one measurement; null: by the clock. For tests of what is decided.
  std::function<double(const TuneWay& way, bool prompt)> rate = {};
};

/// A way's speed, the median of its rounds; test: "pp1024", "tg32".
struct TuneTry {
  TuneWay way;
  std::string test;
  double tokens_per_second = 0;
};

struct TuneResult {
  std::vector<TuneTry> tries;  ///< in the order in which they were made
  TuneWay usual, best;         ///< equal if nothing is faster by more than chance
  double usual_prompt = 0, usual_decode = 0, best_prompt = 0,
         best_decode = 0;   ///< tokens/s, measured in turn at the end
  double copy_seconds = 0;  ///< time of copying the file at each start; 0: not tried
  [[nodiscard]] TunedOptions options() const;  ///< the flags that select `best`
};

/// Numbers of threads worth trying, the usual one first. processors: logical ones.
std::vector<unsigned> threads_to_try(unsigned cores, unsigned processors);

/// Measures the model's file. Throws Interrupted at Ctrl-C, Error for a file that cannot be loaded.
TuneResult tune(const std::string& path, const TuneHow& how);

/// One line for a person; label: of the model.
std::string tune_line(const std::string& label, const TuneResult& result);
/// An object with all that was tried.
Json tune_json(const std::string& label, const TuneResult& result);

}  // namespace cria::tools
