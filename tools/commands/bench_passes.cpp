#include "tools/commands/bench_passes.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>

#include "engine/model_parts.h"
#include "engine/session/draft_control.h"
#include "engine/session/draft_model.h"
#include "model/error.h"
#include "model/plural.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void stop_if_interrupted() {
  if (catch_interrupts()) throw Interrupted();
}

EngineOptions engine_options(const PassBench& how, std::size_t n_ctx, std::size_t sequences) {
  EngineOptions options;
  options.n_ctx = static_cast<std::uint32_t>(n_ctx);
  options.n_batch = std::max(how.batch, static_cast<std::uint32_t>(sequences));
  options.threads = how.default_threads ? 0 : how.threads;
  options.kv_type = how.kv_type;
  options.sequences = static_cast<std::uint32_t>(sequences);
  options.prefix_cache = false;
  return options;
}

/// All logits that are wanted of a batch.
void read_logits(Batch& batch, std::size_t wanted) {
  batch.for_each_row(0, wanted, [](std::size_t, std::span<const float>) {});
}

/// Appends tokens to one sequence; logits of the last `wanted` ones of each pass are computed.
void append(Batch& batch, Sequence& sequence, std::span<const TokenId> tokens, std::size_t wanted) {
  while (!tokens.empty()) {
    stop_if_interrupted();
    batch.clear();
    const std::size_t n = std::min(batch.capacity_left(), tokens.size());
    batch.add(sequence, tokens.first(n), n - std::min(wanted, n));
    batch.forward();
    read_logits(batch, std::min(wanted, n));
    tokens = tokens.subspan(n);
  }
}

/// Sequences of an engine that decode together.
class Together {
 public:
  Together(const Model& model, const PassBench& how, std::size_t n)
      : how_(how),
        engine_(model, engine_options(how, how.prompt + how.decode, n)),
        batch_(engine_) {
    for (std::size_t i = 0; i < n; ++i) sequences_.emplace_back(engine_);
    tokens_ = random_tokens(model, n * (how.prompt + how.decode));
  }

  /// Prefills every sequence, or one whose cache the others share.
  void read_prompts(bool shared) {
    for (Sequence& sequence : sequences_) sequence.truncate(0);
    const std::size_t all = sequences_.size(), n = shared ? 1 : all;
    sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(n), sequences_.end());
    std::vector<std::size_t> read(n);
    for (std::size_t first = 0; first < n;) {
      stop_if_interrupted();
      batch_.clear();
      std::size_t wanted = 0;
      for (std::size_t i = first; i < n && batch_.capacity_left() > 0; ++i) {
        const std::size_t count = std::min(batch_.capacity_left(), how_.prompt - read[i]);
        const bool last = read[i] + count == how_.prompt;
        batch_.add(sequences_[i], prompt(i).subspan(read[i], count), last ? count - 1 : count);
        wanted += last ? 1 : 0;
        read[i] += count;
      }
      batch_.forward();
      read_logits(batch_, wanted);
      while (first < n && read[first] == how_.prompt) ++first;
    }
    while (sequences_.size() < all) sequences_.push_back(sequences_[0].fork());
  }

  /// The step-th token of every sequence.
  void decode(std::size_t step) {
    stop_if_interrupted();
    batch_.clear();
    for (std::size_t i = 0; i < sequences_.size(); ++i)
      batch_.add(
          sequences_[i],
          std::span(tokens_).subspan(sequences_.size() * how_.prompt + i * how_.decode + step, 1),
          0);
    batch_.forward();
    read_logits(batch_, sequences_.size());
  }

 private:
  [[nodiscard]] std::span<const TokenId> prompt(std::size_t i) const {
    return std::span(tokens_).subspan(i * how_.prompt, how_.prompt);
  }

  const PassBench& how_;
  Engine engine_;
  Batch batch_;
  std::vector<Sequence> sequences_;
  std::vector<TokenId> tokens_;
};

/// A known text, so that every draft token can be made right or wrong. A model with a prediction
/// layer drafts by it, as in an answer. The text has frequent tokens, as most texts.
class Oracle {
 public:
  Oracle(const Model& model, const PassBench& how)
      : how_(how),
        engine_(model, engine_options(how, how.prompt + how.decode + kMaxDraft + 1, 1)),
        batch_(engine_),
        sequence_(engine_),
        text_(random_tokens(model, how.prompt + how.decode, kFrequentTokens)),
        wrong_(static_cast<TokenId>(model.config().n_vocab - 1)) {
    if (model.prediction() != nullptr && model.cluster() == nullptr) {
      layer_.emplace(model, engine_options(how, how.prompt + how.decode + kMaxDraft + 1, 1));
      drafted_.emplace(layer_->text(0, false));
    }
    for (std::size_t at = 0; at < how.prompt;) {
      batch_.clear();
      const std::size_t n = std::min(batch_.capacity_left(), how.prompt - at);
      batch_.add(sequence_, std::span(text_).subspan(at, n), layer_ ? 0 : n);
      batch_.forward();
      take(at, n);
      at += n;
    }
  }

  struct Run {
    double seconds = 0;
    std::size_t passes = 0, drafted = 0, kept = 0;
  };
  /// Decodes the text after the prompt. right: accepted draft tokens per 100; nullopt: no drafts.
  Run write(std::optional<std::size_t> right) {
    sequence_.truncate(how_.prompt);
    std::mt19937 random(7);
    DraftControl control;
    Run run;
    // Drafts of unknown quality if they are n-grams.
    const std::size_t agree = layer_ ? kModelAgrees : 2;
    batch_.clear();
    const std::size_t most = batch_.capacity_left() - 1;
    const auto start = Clock::now();
    for (std::size_t at = how_.prompt; at < text_.size();) {
      const auto begin = Clock::now();
      const std::size_t left = text_.size() - at - 1;
      const std::size_t length =
          right ? std::min({left, control.length(agree), engine_.graph().rollback(), most}) : 0;
      if (layer_ && length != 0) {  // the layer's draft costs its time, the oracle's counts
        const DraftModel::DraftRequest request{&*drafted_, std::span(text_).first(at + 1), length,
                                               &draft_};
        layer_->write({&request, 1}, how_.batch, nullptr);
      }
      std::vector<TokenId> tokens{text_[at]};
      std::size_t kept = 0;
      for (std::size_t i = 0; i < length; ++i) {
        const TokenId truth = text_[at + 1 + i];
        const bool hit = random() % 100 < *right;
        if (hit && kept == i) ++kept;
        tokens.push_back(hit ? truth : truth == wrong_ ? wrong_ - 1 : wrong_);
      }
      append(batch_, sequence_, tokens, tokens.size());
      if (right) take(at, kept + 1);
      at += kept + 1;
      sequence_.truncate(at);
      control.passed(agree, length, kept, seconds_since(begin));
      ++run.passes;
      run.drafted += length;
      run.kept += kept;
    }
    run.seconds = seconds_since(start);
    return run;
  }

 private:
  // Hands the layer the hidden states of n positions of the last batch.
  void take(std::size_t first, std::size_t n) {
    if (!layer_) return;
    const std::size_t known = std::min(text_.size(), first + n + 1);
    layer_->take(*drafted_, std::span(text_).first(known), first, batch_.hidden(0, n));
  }

  const PassBench& how_;
  Engine engine_;
  Batch batch_;
  Sequence sequence_;
  std::optional<DraftModel> layer_;  // the model's own prediction layer
  std::optional<DraftModel::Text> drafted_;
  std::vector<TokenId> draft_;
  std::vector<TokenId> text_;
  TokenId wrong_;
};

}  // namespace

std::vector<TokenId> random_tokens(const Model& model, std::size_t n, std::uint32_t end) {
  std::mt19937 generator(1);
  std::vector<TokenId> ids(n);
  const auto ids_end = std::min(end, std::uint32_t{model.config().n_vocab});
  for (TokenId& id : ids) id = static_cast<TokenId>(generator() % ids_end);
  return ids;
}

FiguresTable verify_table() {
  return FiguresTable({{"model", "model"},
                       {"dtype", "type"},
                       {"threads", "threads"},
                       {"tokens", "tokens"},
                       {"milliseconds", "ms", 1},
                       {"read_milliseconds", "reading", 1},
                       {"product_milliseconds", "products", 1},
                       {"goal_milliseconds", "goal", 1},
                       {"of_goal", "of goal", 2}});
}

void bench_verify(const Model& model, const PassBench& how, const std::vector<std::size_t>& tokens,
                  const PassLimit& limit, FiguresTable& table) {
  constexpr double kGoal = 1.25;  // times the limit
  const std::size_t most = std::ranges::max(tokens);
  EngineOptions options = engine_options(how, how.depth + most, 1);
  options.n_batch = std::max(options.n_batch, static_cast<std::uint32_t>(most));
  Engine engine(model, options);
  Batch batch(engine);
  if (batch.capacity_left() < most)
    throw Error("too many tokens for one pass of this model: expected at most " +
                std::to_string(batch.capacity_left()) + ", got " + std::to_string(most));
  Sequence sequence(engine);
  const std::vector<TokenId> text = random_tokens(model, how.depth + most);
  append(batch, sequence, std::span(text).first(how.depth), 0);
  std::vector<std::vector<double>> times(tokens.size());
  Progress progress("passes", "passes", (how.repetitions + 1) * tokens.size());
  for (unsigned repetition = 0; repetition <= how.repetitions; ++repetition) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto start = Clock::now();
      append(batch, sequence, std::span(text).subspan(how.depth, tokens[i]), tokens[i]);
      if (repetition > 0) times[i].push_back(seconds_since(start));
      sequence.truncate(how.depth);
      progress.update(repetition * tokens.size() + i + 1);
    }
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const double ms = 1e3 * median(times[i]), goal = 1e3 * kGoal * limit.seconds(tokens[i]);
    table.add({how.label, how.dtype, double(how.threads), static_cast<double>(tokens[i]), ms,
               1e3 * limit.read, 1e3 * limit.products(tokens[i]), goal, ms / goal});
  }
}

FiguresTable parallel_table() {
  return FiguresTable({{"model", "model"},
                       {"dtype", "type"},
                       {"threads", "threads"},
                       {"prompt", "prompt"},
                       {"decode", "decode"},
                       {"sequences", "seqs"},
                       {"prompt_tokens_per_second", "prompt/s", 1},
                       {"decode_tokens_per_second", "decode/s", 1},
                       {"tokens_per_second", "both/s", 1}});
}

void bench_parallel(const Model& model, const PassBench& how,
                    const std::vector<std::size_t>& sequences, bool shared, FiguresTable& table) {
  for (const std::size_t n : sequences) {
    Together together(model, how, n);
    std::vector<double> prompts, decodes;
    Progress progress(counted(n, "sequence"), "tokens", how.repetitions * how.decode);
    for (unsigned repetition = 0; repetition < how.repetitions; ++repetition) {
      auto start = Clock::now();
      together.read_prompts(shared);
      prompts.push_back(seconds_since(start));
      start = Clock::now();
      for (std::size_t step = 0; step < how.decode; ++step) {
        together.decode(step);
        progress.update(repetition * how.decode + step + 1);
      }
      decodes.push_back(seconds_since(start));
    }
    const double prompt = median(prompts), decode = median(decodes);
    const auto read = static_cast<double>((shared ? 1 : n) * how.prompt),
               written = static_cast<double>(n * how.decode);
    table.add({how.label, how.dtype, double(how.threads),
               shared ? Figure("shared") : Figure(double(how.prompt)),
               static_cast<double>(how.decode), static_cast<double>(n), read / prompt,
               written / decode, (read + written) / (prompt + decode)});
  }
}

FiguresTable speculate_table() {
  return FiguresTable({{"model", "model"},
                       {"dtype", "type"},
                       {"threads", "threads"},
                       {"right_percent", "right, %"},
                       {"tokens_per_second", "tokens/s", 1},
                       {"speedup", "speed-up", 2},
                       {"passes", "passes"},
                       {"drafted", "drafted"},
                       {"kept", "kept"}});
}

void bench_speculate(const Model& model, const PassBench& how,
                     const std::vector<std::size_t>& rates, FiguresTable& table) {
  Oracle oracle(model, how);
  oracle.write({});  // not counted
  std::vector<double> plain;
  std::vector<std::vector<double>> times(rates.size()), ratios(rates.size());
  std::vector<Oracle::Run> last(rates.size());
  Progress progress("guesses", "runs", how.repetitions * rates.size());
  for (unsigned repetition = 0; repetition < how.repetitions; ++repetition) {
    for (std::size_t i = 0; i < rates.size(); ++i) {  // each compared with decoding without drafts
      plain.push_back(oracle.write({}).seconds);
      last[i] = oracle.write(rates[i]);
      times[i].push_back(last[i].seconds);
      ratios[i].push_back(plain.back() / last[i].seconds);
      progress.update(repetition * rates.size() + i + 1);
    }
  }
  const auto add = [&](Figure right, double seconds, double speedup, const Oracle::Run& run) {
    table.add({how.label, how.dtype, double(how.threads), std::move(right),
               static_cast<double>(how.decode) / seconds, speedup, double(run.passes),
               double(run.drafted), double(run.kept)});
  };
  add({}, median(plain), 1, {0, how.decode, 0, 0});
  for (std::size_t i = 0; i < rates.size(); ++i)
    add(static_cast<double>(rates[i]), median(times[i]), median(ratios[i]), last[i]);
}

}  // namespace cria::tools
