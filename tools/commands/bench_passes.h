// What `cria bench` measures of passes over the weights with more than one token: of one sequence,
// as guesses are verified, and of several sequences.
#pragma once

#include <string>
#include <vector>

#include "engine/session.h"
#include "tools/report/figures_table.h"
#include "tools/report/pass_limit.h"

namespace cria::tools {

struct PassBench {
  std::string label;             ///< of the model
  std::string dtype;             ///< the type that most of its weights have
  unsigned threads = 1;          ///< of rank 0
  bool default_threads = false;  ///< of other ranks: each one's default, not as many
  unsigned repetitions = 1;
  std::uint32_t batch = 512;
  KvType kv_type{};
  std::size_t depth = 0, prompt = 512, decode = 128;
};

/// One pass of so many tokens, all of whose logits are wanted, beside what the machine allows.
/// Throws Error where the engine takes fewer at once.
FiguresTable verify_table();
void bench_verify(const Model& model, const PassBench& how, const std::vector<std::size_t>& tokens,
                  const PassLimit& limit, FiguresTable& table);

/// So many sequences at once: their prompts (shared: one that all continue), then a token of each
/// in every pass.
FiguresTable parallel_table();
void bench_parallel(const Model& model, const PassBench& how,
                    const std::vector<std::size_t>& sequences, bool shared, FiguresTable& table);

/// Decoding with guesses that are right at so many per cent, beside decoding without.
FiguresTable speculate_table();
void bench_speculate(const Model& model, const PassBench& how,
                     const std::vector<std::size_t>& rates, FiguresTable& table);

/// Tokens of no meaning, the same each time.
std::vector<TokenId> random_tokens(const Model& model, std::size_t n);

}  // namespace cria::tools
