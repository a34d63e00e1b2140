// Helpers shared by the tests of the C interface.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "engine/c/cria.h"
#include "tests/engine/demo.h"

namespace cria::test {

inline constexpr cria_message kFrance[] = {{"user", "What is the capital of France?", nullptr}};

/// A handle that is freed at the end.
template <class H>
struct Owned {
  H handle{};
  cria_status (*free)(H);
  explicit Owned(cria_status (*f)(H)) : free(f) {}
  ~Owned() {
    if (handle.id != 0) free(handle);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
};

/// The demo model; never freed.
inline cria_model c_demo() {
  static const cria_model model = [] {
    cria_model m{};
    EXPECT_EQ(cria_model_load(CRIA_DATA "/cria-demo-Q8_0.gguf", nullptr, &m), CRIA_OK)
        << cria_last_error();
    return m;
  }();
  return model;
}

/// An engine of three sequences, and a sampler.
class CApi : public testing::Test {
 protected:
  CApi() {
    cria_engine_options options = CRIA_STRUCT(cria_engine_options);
    options.n_ctx = 256;
    options.n_batch = 32;
    options.sequences = 3;
    options.kv_type = "f32";
    EXPECT_EQ(cria_engine_create(c_demo(), &options, &engine.handle), CRIA_OK) << cria_last_error();
    EXPECT_EQ(cria_sampler_create(c_demo(), &sampler.handle), CRIA_OK);
  }

  [[nodiscard]] cria_request chat() const {
    cria_request request = CRIA_STRUCT(cria_request);
    request.messages = kFrance;
    request.n_messages = 1;
    request.sampler = sampler.handle;
    request.max_tokens = 20;
    return request;
  }

  [[nodiscard]] cria_answer begin(const cria_request& request) const {
    cria_answer answer{};
    EXPECT_EQ(cria_answer_begin(engine.handle, &request, &answer), CRIA_OK) << cria_last_error();
    return answer;
  }

  Owned<cria_engine> engine{cria_engine_free};
  Owned<cria_sampler> sampler{cria_sampler_free};
};

/// All pieces, and the status behind the last.
inline std::pair<std::string, cria_status> read_all(cria_answer answer) {
  std::string text;
  cria_piece piece = CRIA_STRUCT(cria_piece);
  cria_status status = CRIA_OK;
  while ((status = cria_answer_next(answer, &piece)) == CRIA_OK)
    text.append(piece.text, piece.text_size);
  return {text, status};
}

/// Returns the answer of a C++ Session to kFrance.
inline GenerateResult cpp_answer(const SamplerOptions& sampler) {
  Session session(demo_model(), {.n_ctx = 256, .n_batch = 32, .kv_type = parse_kv_type("f32")});
  GenerateOptions options;
  options.sampler = sampler;
  options.max_tokens = 20;
  options.logprobs = 2;
  return session.chat({{"user", kFrance[0].content}}, options);
}

}  // namespace cria::test
