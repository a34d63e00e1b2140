// Generating as a person sees it: progress while a prompt is read, and what it took.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "engine/session.h"
#include "tools/options/model.h"

namespace cria::tools {

/// For GenerateOptions::progress: a bar on a terminal while a long prompt is read. The bar is wiped
/// at the end, or with the last copy of what is returned.
std::function<void(std::size_t done, std::size_t total)> reading_progress();
/// Tokens that were evaluated, and drawn, in the answer's decode_seconds: the first is drawn from
/// what reading gives, and what is drawn last is not evaluated.
std::size_t decoded_tokens(const GenerateResult& result);
/// "12 tokens, 80.1 tokens/s; prompt 20 tokens, 400 tokens/s (and 100 evaluated before)"
std::string speed_line(const GenerateResult& result);
/// Why an answer has thinking and nothing else.
std::string no_answer_note(const GenerateResult& result);
/// The time table of --profile on stderr, if it was asked for.
void print_profile(const std::vector<NodeTime>& times, const ModelOptions& options);

}  // namespace cria::tools
