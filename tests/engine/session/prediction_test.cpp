// Drafts by a model's own prediction layer: the answers are those without drafts, to the byte.
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "engine/scheduler.h"
#include "engine/session/draft_control.h"
#include "engine/session/engine_state.h"
#include "tests/engine/architectures/architecture_cases.h"
#include "tests/engine/demo.h"

namespace cria::test {
namespace {

// Adds the tensors that the prediction layer needs: warnings name the missing ones.
std::shared_ptr<const Model> with_prediction_layer(TinyArchitecture& tiny) {
  static const std::regex missing(
      R"(missing tensor: expected shape \[([0-9, ]+)\] \(tensor ([^)]+)\))");
  const std::string layer = "blk." + std::to_string(TinyArchitecture::kLayers - 1) + ".";
  tiny.tensors.push_back({layer + "nextn.eh_proj.weight", {128, 64}});
  for (int tries = 0; tries < 40; ++tries) {
    auto model = tiny.load();
    if (model->prediction() != nullptr) return model;
    std::smatch match;
    const std::string text = model->warnings().back();
    if (!std::regex_search(text, match, missing)) throw Error(text);
    TinyArchitecture::Tensor tensor{match[2], {}};
    std::stringstream numbers(match[1]);
    for (std::string number; std::getline(numbers, number, ',');)
      tensor.shape.push_back(std::stoull(number));
    tiny.tensors.push_back(tensor);
  }
  throw Error("a model that never is complete");
}

ArchitectureCase predicting(const std::string& name) {
  ArchitectureCase c = architecture_case(name);
  c.keys["nextn_predict_layers"] = 1U;
  return c;
}

std::vector<TokenId> prompt_of(std::size_t n) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < n; ++i)
    tokens.push_back(static_cast<TokenId>((i * i + 5 * i) % TinyArchitecture::kVocabulary));
  return tokens;
}

SessionOptions predicting_session(std::uint32_t n_batch) {
  SessionOptions options;
  options.n_ctx = 400;
  options.n_batch = n_batch;
  options.threads = 2;
  options.own_drafts = true;
  return options;
}

class PredictionLayer : public testing::TestWithParam<const char*> {
 protected:
  TinyArchitecture tiny_{predicting(GetParam())};
  const std::shared_ptr<const Model> model_ = with_prediction_layer(tiny_);
};

TEST_P(PredictionLayer, ChangesNoAnswer) {
  std::size_t drafted = 0, accepted = 0;
  for (const std::size_t length : {1U, 60U, 150U}) {
    for (const float temperature : {0.0F, 1.5F}) {
      GenerateOptions options = greedy(80);
      options.sampler.temperature = temperature;
      options.sampler.seed = 7;
      options.logprobs = 1;
      options.ignore_eos = true;
      const auto spoken = [&](Speculate mode, std::uint32_t n_batch) {
        options.speculate = mode;
        Session session(*model_, predicting_session(n_batch));
        GenerateResult result = session.generate(prompt_of(length), options);
        const TokenId next = 5;
        return std::pair(std::move(result), copy(session.eval({&next, 1})));
      };
      const auto want = spoken(Speculate::Off, 512);
      EXPECT_EQ(want.first.drafted, 0U);
      for (const auto& [mode, n_batch] :
           {std::pair{Speculate::Layers, 512U}, {Speculate::Layers, 5U}, {Speculate::Auto, 64U}}) {
        const auto got = spoken(mode, n_batch);
        EXPECT_EQ(got.first.tokens, want.first.tokens);
        ASSERT_EQ(got.first.logprobs.size(), want.first.logprobs.size());
        for (std::size_t i = 0; i < want.first.logprobs.size(); ++i)
          EXPECT_EQ(got.first.logprobs[i].logprob, want.first.logprobs[i].logprob);
        EXPECT_TRUE(same_bytes(got.second, want.second));
        EXPECT_GT(got.first.drafted, mode == Speculate::Layers ? 20U : 0U);
        drafted += got.first.drafted;
        accepted += got.first.accepted;
      }
    }
  }
  EXPECT_GT(accepted, 0U);
  EXPECT_GT(drafted, accepted);
}

// Several turns on one session: hidden states of the first ones are in the layer's cache.
TEST_P(PredictionLayer, DraftsInLaterTurns) {
  const auto turns = [&](Speculate mode) {
    Session session(*model_, predicting_session(64));
    GenerateOptions options = greedy(20);
    options.ignore_eos = true;
    options.speculate = mode;
    std::vector<TokenId> text = prompt_of(70), all;
    for (int turn = 0; turn < 3; ++turn) {
      const GenerateResult result = session.generate(text, options);
      all.insert(all.end(), result.tokens.begin(), result.tokens.end());
      text.insert(text.end(), result.tokens.begin(), result.tokens.end());
      text.push_back(static_cast<TokenId>(turn + 1));
    }
    return all;
  };
  EXPECT_EQ(turns(Speculate::Layers), turns(Speculate::Off));
}

TEST_P(PredictionLayer, ServesSeveralAnswersAtOnce) {
  EngineOptions options = predicting_session(48);
  options.sequences = 3;
  options.prefix_cache = true;
  const auto answers = [&](Speculate mode) {
    Engine engine(*model_, options);
    Scheduler scheduler(engine);
    std::map<std::size_t, std::vector<TokenId>> tokens;
    for (std::size_t i = 0; i < 6; ++i) {
      AnswerRequest request;
      request.prompt = prompt_of(40 + 30 * (i % 3));
      request.options = greedy(25);
      request.options.ignore_eos = true;
      request.options.speculate = mode;
      request.on_end = [&tokens, i](const GenerateResult& r, const std::optional<Error>& error) {
        EXPECT_FALSE(error);
        tokens[i] = r.tokens;
      };
      scheduler.add(std::move(request));
    }
    while (scheduler.step()) continue;
    return tokens;
  };
  EXPECT_EQ(answers(Speculate::Layers), answers(Speculate::Off));
}

INSTANTIATE_TEST_SUITE_P(Models, PredictionLayer,
                         testing::Values("qwen35", "qwen35moe", "glm4moe", "deepseek2",
                                         "ernie4_5_moe"),
                         [](const auto& test) { return std::string(test.param); });

// The logits of the layer for known hidden states; they agreed with exact arithmetic for files of
// this architecture.
TEST(Prediction, LogitsAreKnown) {
  TinyArchitecture tiny(predicting("qwen35"));
  const auto model = with_prediction_layer(tiny);
  Engine engine = StateAccess::open(*model, predicting_session(64), GraphPart::Prediction);
  Sequence sequence(engine);
  Batch batch(engine);
  const ValueId input = engine.graph().input;
  const std::size_t n = 20, width = engine.graph().values[input].width;
  float* const hidden = StateAccess::of(engine).executor.value(input);
  for (std::size_t i = 0; i < n * width; ++i) hidden[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  batch.add(sequence, prompt_of(n), 0);
  batch.forward();
  std::vector<float> logits;
  batch.for_each_row(0, n, [&](std::size_t, std::span<const float> row) {
    logits.insert(logits.end(), row.begin(), row.end());
  });
  double squares = 0;
  for (const float x : logits) squares += double{x} * x;
  EXPECT_NEAR(checksum(logits), 13.9633, 2e-3 * std::sqrt(squares));
}

// Rows read in one piece or in many, or known of another text, give the same drafts.
TEST(Prediction, DraftsDependOnNoPieces) {
  TinyArchitecture tiny(predicting("glm4moe"));
  const auto model = with_prediction_layer(tiny);
  const std::vector<TokenId> text = prompt_of(200);
  const std::size_t width = model->config().n_embd, rows = text.size() - 1;
  std::vector<float> hidden(rows * width);
  for (std::size_t i = 0; i < hidden.size(); ++i)
    hidden[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  const auto draft = [&](std::size_t piece, std::uint32_t n_batch) {
    EngineOptions options = predicting_session(n_batch);
    options.sequences = 2;
    DraftModel layer(*model, options);
    DraftModel::Text seen = layer.text(0, true);
    for (std::size_t begin = 0; begin < rows; begin += piece)
      layer.take(seen, text, begin,
                 std::span(hidden).subspan(begin * width, std::min(piece, rows - begin) * width));
    std::vector<TokenId> out;
    const DraftModel::DraftRequest request{&seen, text, 6, &out};
    layer.write({&request, 1}, 512, nullptr);
    std::vector<TokenId> again;
    DraftModel::Text other = layer.text(0, true);
    layer.take(other, text, 192, std::span(hidden).subspan(192 * width));
    const DraftModel::DraftRequest second{&other, text, 6, &again};
    layer.write({&second, 1}, 512, nullptr);
    EXPECT_EQ(again, out) << "found in the prefix cache";
    return out;
  };
  const std::vector<TokenId> whole = draft(rows, 512);
  EXPECT_EQ(whole.size(), 6U);
  EXPECT_EQ(draft(1, 512), whole);
  EXPECT_EQ(draft(7, 3), whole);
  EXPECT_EQ(draft(150, 64), whole);
}

TEST(Prediction, MustBeThereIfAskedFor) {
  const auto model = TinyArchitecture(architecture_case("qwen35")).load();
  EXPECT_EQ(model->prediction(), nullptr);
  Session session(*model, predicting_session(64));
  GenerateOptions options = greedy(5);
  options.speculate = Speculate::Layers;
  EXPECT_NE(
      error_of([&] { (void)session.generate(prompt_of(5), options); }).find("nextn_predict_layers"),
      std::string::npos);
}

// A damaged layer is not used, and a warning says so.
TEST(Prediction, ADamagedLayerIsLeftOut) {
  TinyArchitecture tiny(predicting("glm4moe"));
  (void)with_prediction_layer(tiny);
  for (TinyArchitecture::Tensor& tensor : tiny.tensors)
    if (tensor.name.ends_with("nextn.enorm.weight")) tensor.shape = {32};
  const auto model = tiny.load();
  EXPECT_EQ(model->prediction(), nullptr);
  EXPECT_NE(model->warnings().back().find("nextn.enorm.weight"), std::string::npos);
}

}  // namespace
}  // namespace cria::test
