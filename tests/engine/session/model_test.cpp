// Loading: what is refused, and how it is said.
#include <gtest/gtest.h>

#include "tests/engine/demo.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

TEST(Model, HasItsParts) {
  const Model& model = demo_model();
  EXPECT_EQ(model.config().n_layers, 8U);
  EXPECT_EQ(model.graph().caches.size(), 8U);
  EXPECT_TRUE(model.warnings().empty());
  EXPECT_EQ(model.vocabulary().tokens.size(), 4096U);
  EXPECT_EQ(model.tokenizer().decode(model.tokenizer().encode("some text", false, false)),
            "some text");
  EXPECT_FALSE(model.pinned());
}

TEST(Model, ReadsWithoutMapping) {
  const auto model = Model::load(CRIA_DATA "/cria-demo-Q8_0.gguf", {.mmap = false});
  EXPECT_TRUE(model->pinned());
  EXPECT_TRUE(same_bytes(all_logits(*model, {}, demo_tokens()),
                         all_logits(demo_model(), {}, demo_tokens())));
}

TEST(Model, MissingFileIsAnError) {
  EXPECT_NE(error_of([] { Model::load("/none/such.gguf"); }).find("/none/such.gguf: "),
            std::string::npos);
}

TEST(Model, RejectsTypesUnfitForWeights) {
  TinyModel tiny;
  tiny.type_of = [](const std::string& name) {
    return name == "blk.1.ffn_down" ? DType::I8 : DType::F16;
  };
  EXPECT_NE(error_of([&] { (void)tiny.load(); }), "");
}

TEST(Model, TypesOfKeysAndValuesHaveNames) {
  EXPECT_EQ(parse_kv_type("f16"), SessionOptions{}.kv_type);
  EXPECT_EQ(parse_kv_type("q8_0"), KvType::Q8_0);
  EXPECT_EQ(error_of([] { parse_kv_type("q4_0"); }),
            "unknown type of the KV cache: expected f16, f32 or q8_0, got q4_0");
}

}  // namespace
}  // namespace cria::test
