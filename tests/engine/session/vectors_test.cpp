// Vectors and scores: poolings, encoders, classifiers.
#include "engine/vectors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "engine/scheduler.h"
#include "tests/engine/architectures/tiny_architecture.h"
#include "tests/engine/demo.h"

namespace cria::test {
namespace {

const std::string kVectors = CRIA_TEST_DATA "/vectors/";

std::shared_ptr<const Model> vectors_model(const std::string& name,
                                           std::vector<MetadataOverride> overrides = {}) {
  return Model::load(kVectors + name, {.overrides = std::move(overrides)});
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<float> file_floats(const std::string& name) {
  std::ifstream in(kVectors + name, std::ios::binary);
  std::vector<float> values(32 * 48);
  in.read(reinterpret_cast<char*>(values.data()),
          static_cast<std::streamsize>(values.size() * sizeof(float)));
  return in ? values : std::vector<float>();
}

const std::vector<TokenId> kText = {1,   282, 20,  68,  174, 18,  148, 20,  278, 9,  155,
                                    128, 96,  50,  285, 263, 65,  172, 46,  71,  63, 253,
                                    28,  273, 201, 19,  172, 235, 183, 213, 153, 114};
const std::vector<TokenId> kPair = {1,   198, 198, 222, 47,  14,  244, 86,  126, 241, 265,
                                    231, 79,  145, 30,  231, 277, 230, 142, 34,  232, 112,
                                    261, 178, 164, 279, 283, 216, 64,  68,  195, 179};

// The expected values are exact arithmetic on the file's weights. Keys and values of f16 and f16
// products move them by about 2e-4; leaving out the biases moves them by 0.8.
TEST(Vectors, OfEachTokenAreThoseOfExactArithmetic) {
  const auto model = vectors_model("bert-tokens.gguf");
  EXPECT_EQ(default_pooling(*model), Pooling::None);
  const std::vector<float> exact = file_floats("bert-tokens.f32");
  ASSERT_FALSE(exact.empty());
  Engine engine(*model, {});
  const std::vector<float> got = embed(engine, {&kText, 1}, Pooling::None)[0];
  ASSERT_EQ(got.size(), exact.size());
  for (std::size_t row = 0; row < kText.size(); ++row) {
    double squares = 0, distance = 0;
    for (std::size_t i = 0; i < 48; ++i) squares += std::pow(double{exact[row * 48 + i]}, 2);
    for (std::size_t i = 0; i < 48; ++i)
      distance += std::pow(exact[row * 48 + i] / std::sqrt(squares) - got[row * 48 + i], 2);
    EXPECT_LT(std::sqrt(distance), 0.003) << row;
  }
}

TEST(Vectors, ClassifierOutputsAreThoseOfExactArithmetic) {
  const auto model = vectors_model("bert-rank.gguf");
  EXPECT_EQ(default_pooling(*model), Pooling::Rank);
  Engine engine(*model, {});
  const std::vector<float> outputs = embed(engine, {&kPair, 1}, Pooling::Rank)[0];
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_NEAR(outputs[0], -0.467266708612442, 0.003);
  EXPECT_FLOAT_EQ(relevance(*model, outputs),
                  static_cast<float>(1 / (1 + std::exp(-double{outputs[0]}))));
}

TEST(Vectors, PoolingsAreOfTheSameRows) {
  const auto model = vectors_model("bert-tokens.gguf");
  Engine engine(*model, {});
  const auto pooled = [&](Pooling pooling) { return embed(engine, {&kText, 1}, pooling)[0]; };
  const std::vector<float> rows = pooled(Pooling::None);
  EXPECT_EQ(pooled(Pooling::First), std::vector(rows.begin(), rows.begin() + 48));
  EXPECT_EQ(pooled(Pooling::Last), std::vector(rows.end() - 48, rows.end()));
  EXPECT_NE(pooled(Pooling::Mean), pooled(Pooling::First));
  EXPECT_NE(message_of([&] { pooled(Pooling::Rank); }).find("no classifier"), std::string::npos);
}

TEST(Vectors, TheFileNamesThePooling) {
  const auto with = [](std::int64_t type) {
    return default_pooling(*vectors_model("bert-tokens.gguf", {{".pooling_type", type}}));
  };
  EXPECT_EQ(with(1), Pooling::Mean);
  EXPECT_EQ(with(2), Pooling::First);
  EXPECT_EQ(with(3), Pooling::Last);
  EXPECT_NE(message_of([&] { with(5); }).find("expected 0 to 4, got 5"), std::string::npos);
  EXPECT_NE(message_of([&] { with(4); }).find("no classifier"), std::string::npos);
  EXPECT_EQ(default_pooling(demo_model()), Pooling::Mean);
  EXPECT_EQ(default_pooling(*vectors_model("bert-rank.gguf", {{".pooling_type", std::int64_t{1}}})),
            Pooling::Rank)
      << "a classifier is never ignored";
  for (const char* name : {"none", "mean", "cls", "last", "rank"})
    EXPECT_EQ(cria::name(parse_pooling(name)), name);
  EXPECT_THROW(parse_pooling("max"), Error);
}

TEST(Vectors, OfManyTextsAreThoseOfEach) {
  const auto model = vectors_model("bert-tokens.gguf");
  std::vector<std::vector<TokenId>> texts;
  for (std::size_t n = 1; n <= 64; n += 7)
    for (const TokenId first : {1, 5}) {
      std::vector<TokenId>& text = texts.emplace_back(std::vector<TokenId>{first});
      while (text.size() < n) text.push_back(kText[text.size() % kText.size()]);
    }
  Engine alone(*model, {.threads = 1});
  EngineOptions options{.n_batch = 300, .threads = 2};
  options.sequences = 7;
  Engine together(*model, options);
  const auto got = embed(together, texts, Pooling::Mean);
  for (std::size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(got[i], embed(alone, {&texts[i], 1}, Pooling::Mean)[0]) << i;
  for (const KernelSet* set : available_kernels()) {
    EngineOptions how;
    how.kernels = set;
    Engine engine(*model, how);
    EXPECT_EQ(embed(engine, texts, Pooling::Mean), got) << set->isa;
  }
}

TEST(Vectors, AnEncoderTakesATextAtOnce) {
  const auto model = vectors_model("bert-tokens.gguf");
  Engine engine(*model, {});
  EXPECT_EQ(engine.options().n_ctx, 64U);
  std::vector<TokenId> text(65, 7);
  EXPECT_NE(message_of([&] {
              embed(engine, {&text, 1}, Pooling::Mean);
            }).find("at most 64 tokens"),
            std::string::npos);
  EXPECT_NE(message_of([&] { Engine(*model, {.n_ctx = 65}); }).find("at most 64"),
            std::string::npos);
  Sequence sequence(engine);
  Batch batch(engine);
  batch.add(sequence, std::span(kText).first(8), 0);
  batch.forward();
  batch.clear();
  EXPECT_NE(message_of([&] {
              batch.add(sequence, std::span(kText).first(8), 0);
            }).find("expected an empty sequence, got one of 8 tokens"),
            std::string::npos);
  EXPECT_EQ(sequence.truncate(4), 0U) << "its keys depend on later tokens";
}

TEST(Vectors, ModelsWithoutLogitsPredictNoTokens) {
  for (const char* file : {"bert-tokens.gguf", "bert-rank.gguf"}) {
    const auto model = vectors_model(file);
    Session session(*model, {});
    EXPECT_NE(message_of([&] { session.generate(kText, {}); }).find("predicts no tokens"),
              std::string::npos);
    EXPECT_NE(
        message_of([&] { session.eval(std::span(kText).first(4)); }).find("predicts no tokens"),
        std::string::npos)
        << file;
  }
}

TEST(Rerank, ScoresDoNotDependOnOtherDocuments) {
  const auto model = vectors_model("bert-rank.gguf");
  EngineOptions options;
  options.sequences = 3;
  Engine engine(*model, options);
  const std::vector<std::string> documents = {"b", "some longer text", "", "b"};
  const std::vector<float> scores = rerank(engine, "q", documents);
  ASSERT_EQ(scores.size(), 4U);
  EXPECT_EQ(scores[0], scores[3]);
  EXPECT_NE(scores[0], scores[1]);
  for (std::size_t i = 0; i < documents.size(); ++i)
    EXPECT_EQ(rerank(engine, "q", {&documents[i], 1})[0], scores[i]);
  const std::vector<std::string> too_long = {std::string(100, 'x')};
  EXPECT_THROW(rerank(engine, "q", too_long), Error);
}

TEST(Rerank, PairsAreInTheFilesTemplate) {
  const auto model = vectors_model("bert-rank.gguf");
  const Tokenizer& tokenizer = model->tokenizer();
  std::vector<TokenId> expected = {1};
  for (const std::string text : {"q", "d <s>"}) {
    const TextPart part{text, false};
    const auto ids = tokenizer.encode_parts({&part, 1});
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(pair_tokens(*model, "q", "d <s>"), expected) << "no EOS: the file adds none";
  const auto other =
      vectors_model("bert-rank.gguf",
                    {{"tokenizer.chat_template.rerank", std::string("<s>{document}</s>{query}")}});
  const TextPart parts[] = {{"<s>", true}, {"d </s>", false}, {"</s>", true}, {"q", false}};
  EXPECT_EQ(pair_tokens(*other, "q", "d </s>"), other->tokenizer().encode_parts(parts));
}

TEST(Rerank, SeveralLabelsAreASoftmax) {
  const auto model = vectors_model("bert-rank.gguf");
  const std::vector<float> two = {1, 3};
  EXPECT_FLOAT_EQ(relevance(*model, two), static_cast<float>(1 / (1 + std::exp(2.0))));
}

/// Rows of hidden states of a text.
std::vector<float> rows_of_text(const Model& model, std::span<const TokenId> text,
                                const EngineOptions& options = {}) {
  Engine engine(model, options);
  Sequence sequence(engine);
  Batch batch(engine);
  batch.add(sequence, text, 0);
  batch.forward();
  return copy(batch.hidden(0, text.size()));
}

const ArchitectureCase kEncoders[] = {
    {"bert", "bert", {}, {{"token_types.weight", {64, 2}}}},
    {"nomic_bert", "nomic-bert", {}, {}},
    {"nomic_bert_moe",
     "nomic-bert-moe",
     {{"expert_count", 6U}, {"expert_used_count", 2U}},
     {{"blk.1.ffn_gate_inp.weight", {64, 6}}, {"blk.1.ffn_down_exps.weight", {96, 64, 6}}}},
    {"gemma_embedding",
     "gemma-embedding",
     {{"attention.sliding_window", 8U}},
     {{"dense_2.weight", {64, 96}}, {"dense_3.weight", {96, 32}}}}};

TEST(Encoders, EveryTokenAttendsToEveryOther) {
  for (const ArchitectureCase& c : kEncoders) {
    SCOPED_TRACE(c.name);
    const auto model = TinyArchitecture(c).load();
    EXPECT_FALSE(model->graph().causal);
    std::vector<TokenId> text(200);
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<TokenId>(i * i % 40);
    const std::vector<float> rows = rows_of_text(*model, text, {.threads = 1});
    EXPECT_TRUE(same_bytes(rows, rows_of_text(*model, text, {.threads = 3})));
    for (const KernelSet* set : available_kernels()) {
      EngineOptions options;
      options.kernels = set;
      EXPECT_TRUE(same_bytes(rows, rows_of_text(*model, text, options))) << set->isa;
    }
    const std::size_t width = rows.size() / text.size();
    EXPECT_EQ(width, c.name == "gemma_embedding" ? 32U : 64U);
    if (c.name == "gemma_embedding") continue;  // its layers here have windows
    text.back() = 3;
    const std::vector<float> changed = rows_of_text(*model, text);
    for (std::size_t row = 0; row < text.size(); ++row)
      EXPECT_FALSE(std::equal(rows.begin() + static_cast<std::ptrdiff_t>(row * width),
                              rows.begin() + static_cast<std::ptrdiff_t>((row + 1) * width),
                              changed.begin() + static_cast<std::ptrdiff_t>(row * width)))
          << row;
  }
}

// Only windowed layers: a change reaches half a window further with each of the four.
TEST(Encoders, WindowsHaveTwoSides) {
  ArchitectureCase c = kEncoders[3];
  c.keys["attention.sliding_window_pattern"] = GgufArray::of(std::vector<bool>(4, true));
  const auto model = TinyArchitecture(c).load();
  std::vector<TokenId> text(60, 5);
  const std::vector<float> rows = rows_of_text(*model, text);
  text[30] = 9;
  const std::vector<float> changed = rows_of_text(*model, text);
  const std::size_t width = rows.size() / text.size(), reach = 4 * 4;
  for (std::size_t row = 0; row < text.size(); ++row) {
    const bool same = std::equal(rows.begin() + static_cast<std::ptrdiff_t>(row * width),
                                 rows.begin() + static_cast<std::ptrdiff_t>((row + 1) * width),
                                 changed.begin() + static_cast<std::ptrdiff_t>(row * width));
    EXPECT_EQ(same, row + reach < 30 || row > 30 + reach) << row;
  }
}

// The second text of a pair has another token type, if there is a classifier.
TEST(Encoders, SegmentsFollowTheSeparator) {
  ArchitectureCase c = kEncoders[0];
  c.tensors.push_back({"cls.output.weight", {64, 1}});
  TinyArchitecture tiny(c);
  tiny.keys["tokenizer.ggml.seperator_token_id"] = 2U;
  tiny.edit = [](const TinyArchitecture::Tensor& t, std::vector<float>& values) {
    if (t.name == "token_types.weight")
      for (std::size_t i = 0; i < 64; ++i) values[64 + i] = values[i];
  };
  const auto same_types = tiny.load();
  tiny.edit = nullptr;
  const auto model = tiny.load();
  const std::vector<TokenId> one = {1, 7, 8, 2}, two = {1, 7, 2, 8, 2};
  EXPECT_TRUE(same_bytes(rows_of_text(*model, one), rows_of_text(*same_types, one)));
  EXPECT_FALSE(same_bytes(rows_of_text(*model, two), rows_of_text(*same_types, two)));
}

TEST(Encoders, ReportContradictions) {
  TinyArchitecture bert(kEncoders[0]);
  bert.keys["bert.attention.causal"] = true;
  EXPECT_NE(message_of([&] { (void)bert.load(); }).find("expected false"), std::string::npos);
  const ArchitectureCase llama{"llama", "llama", {}, {{"cls.weight", {64, 64}}}};
  EXPECT_NE(message_of([&] { TinyArchitecture{llama}; }).find("a classifier or projection"),
            std::string::npos);
}

}  // namespace
}  // namespace cria::test
