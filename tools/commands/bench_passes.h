// Passes of `cria bench` with more than one token: verifying drafts of one sequence, and several
// sequences at once.
#pragma once
#include <string>
#include <vector>

#include "engine/session.h"
#include "tools/commands/bench_report.h"
#include "tools/report/roofline.h"

namespace cria::tools {

struct PassBench {
  std::string label;             ///< the model's name
  std::string dtype;             ///< the type that most of its weights have
  unsigned threads = 1;          ///< threads of rank 0
  bool default_threads = false;  ///< other ranks use their own default
  unsigned repetitions = 1;
  std::uint32_t batch = 512;
  KvType kv_type{};
  std::size_t depth = 0, prompt = 512, decode = 128;
};

/// One pass of `n` tokens with logits for each, compared with the machine's limit. Throws Error if
/// the engine takes fewer at once.
FiguresTable verify_table();
void bench_verify(const Model& model, const PassBench& how, const std::vector<std::size_t>& tokens,
                  const PassLimit& limit, FiguresTable& table);

/// Several sequences at once: their prompts (shared: one that all continue), then one token of each
/// per pass.
FiguresTable parallel_table();
void bench_parallel(const Model& model, const PassBench& how,
                    const std::vector<std::size_t>& sequences, bool shared, FiguresTable& table);

/// Decoding with drafts of a given acceptance rate in percent, compared with decoding without.
FiguresTable speculate_table();
void bench_speculate(const Model& model, const PassBench& how,
                     const std::vector<std::size_t>& rates, FiguresTable& table);

/// Tokens of no meaning, the same each time.
std::vector<TokenId> random_tokens(const Model& model, std::size_t n);

}  // namespace cria::tools
