// Models: loaded, run, saved and loaded again.
#include <cmath>

#include "engine/model_parts.h"
#include "engine/session.h"
#include "tests/fuzz/gguf_mutator.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seed_models.h"

namespace cria::fuzz {
namespace {

constexpr std::uint32_t kPositions = 12;
constexpr std::size_t kMaxVocabulary = 1 << 16;  // larger ones are only slower

SessionOptions session_options(std::string_view input) {
  SessionOptions options;
  options.n_ctx = input.size() % 7 == 0 ? 0 : kPositions;
  options.n_batch = 1 + input.size() % 5;
  options.threads = 1;
  options.kv_type = static_cast<KvType>(input.size() % 3);
  options.context_shift = input.size() % 2 == 0;
  return options;
}

void generate(Session& session, const std::vector<TokenId>& prompt) {
  GenerateOptions options;
  options.max_tokens = 6;
  options.sampler.seed = 1;
  options.stop = {"w1"};
  const GenerateResult result =
      session.generate(prompt, options, [](std::string_view) { return true; });
  for (const TokenId id : result.tokens)
    require(id >= 0 && static_cast<std::uint32_t>(id) < session.model().config().n_vocab,
            "invalid token");
}

template <class Part>
void attempt(Part part) {
  try {
    part();
  } catch (const Error&) {
  }
}

void run_model(std::string_view input) {
  const MemoryFile file(input);
  const auto model = Model::load(file.path());
  if (model->config().n_vocab > kMaxVocabulary) return;
  Session session(*model, session_options(input));
  const std::vector<TokenId> tokens = {0, static_cast<TokenId>(model->config().n_vocab) - 1, 0, 0,
                                       0};
  attempt([&] {
    for (const float logit :
         session.eval(std::span(tokens).first(std::min<std::size_t>(5, session.options().n_ctx))))
      require(std::isfinite(logit), "logit is NaN");
  });
  attempt([&] { generate(session, {0}); });
  attempt([&] { generate(session, model->tokenizer().encode("ab a\xE2\x96\x81 \n", true, true)); });
  attempt([&] {
    GenerateOptions options;
    options.max_tokens = 2;
    options.sampler.temperature = 0;
    session.chat({{"system", "a"}, {"user", "<s>b"}}, options,
                 [](std::string_view) { return true; });
  });
}

}  // namespace

const Target kModel{"model", run_model, seed_models, mutate_gguf, gguf_words};

}  // namespace cria::fuzz
