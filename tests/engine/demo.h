// The bundled model, and conversations with it.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "engine/model_parts.h"
#include "engine/session.h"

namespace cria::test {

inline const Model& demo_model() {
  static const std::shared_ptr<const Model> model = Model::load(CRIA_DATA "/cria-demo-Q8_0.gguf");
  return *model;
}

/// 64 tokens: two questions in the chat format, then prose.
inline const std::vector<TokenId>& demo_tokens() {
  static const std::vector<TokenId> tokens = {
      1,   3,    321, 15,   4048, 4018, 276,  307,  266,  499,  283,  1938, 4053, 4,    4009, 15,
      3,   314,  15,  4034, 263,  499,  283,  1938, 307,  2688, 4029, 4,    4009, 15,   4009, 2184,
      378, 340,  341, 4011, 272,  261,  1199, 276,  349,  286,  268,  3887, 2199, 272,  479,  737,
      266, 2282, 301, 1137, 286,  281,  959,  266,  1902, 2243, 3215, 283,  940,  4014, 1774, 358};
  return tokens;
}

/// n tokens: the 64 again and again.
inline std::vector<TokenId> many_tokens(std::size_t n) {
  std::vector<TokenId> tokens;
  while (tokens.size() < n) tokens.push_back(demo_tokens()[tokens.size() % demo_tokens().size()]);
  return tokens;
}

inline std::vector<float> all_logits(Session& session, std::span<const TokenId> tokens) {
  std::vector<float> all;
  session.eval_all(tokens, [&](std::size_t, std::span<const float> row) {
    all.insert(all.end(), row.begin(), row.end());
  });
  return all;
}

inline std::vector<float> all_logits(const Model& model, const SessionOptions& options,
                                     std::span<const TokenId> tokens) {
  Session session(model, options);
  return all_logits(session, tokens);
}

inline std::vector<float> copy(std::span<const float> logits) {
  return {logits.begin(), logits.end()};
}

/// Equality of bytes: 0 and -0 differ, NaN equals itself.
inline bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline GenerateOptions greedy(std::int64_t max_tokens = 64) {
  GenerateOptions options;
  options.sampler.temperature = 0;
  options.max_tokens = max_tokens;
  return options;
}

/// A sink that collects.
struct Text {
  std::string text;
  TextSink sink() {
    return [this](std::string_view piece) { return text += piece, true; };
  }
};

/// Returns the message of the Error that f throws; "" if it does not throw.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace cria::test
