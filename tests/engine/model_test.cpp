// Loading: what is refused, and how it is said.
#include <gtest/gtest.h>

#include "tests/engine/demo.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

TEST(Model, HasItsParts) {
  const Model& model = demo_model();
  EXPECT_EQ(model.config().n_layers, 8U);
  EXPECT_EQ(model.weights().layers.size(), 8U);
  EXPECT_EQ(model.vocabulary().tokens.size(), 4096U);
  EXPECT_EQ(model.tokenizer().decode(model.tokenizer().encode("some text", false, false)), "some text");
  EXPECT_FALSE(model.pinned());
}

TEST(Model, ReadsWithoutMapping) {
  const auto model = Model::load(CRIA_DATA "/cria-demo-Q8_0.gguf", {.map = MapMode::Read});
  EXPECT_TRUE(model->pinned());
  EXPECT_TRUE(same_bytes(all_logits(*model, {}, demo_tokens()), all_logits(demo_model(), {}, demo_tokens())));
}

TEST(Model, MissingFileIsAnError) {
  EXPECT_NE(error_of([] { Model::load("/none/such.gguf"); }).find("/none/such.gguf: "), std::string::npos);
}

TEST(Model, TypeThatCannotBeAWeightIsAnError) {
  TinyModel tiny;
  tiny.type_of = [](const std::string& name) { return name == "blk.1.ffn_down" ? DType::I8 : DType::F16; };
  EXPECT_NE(error_of([&] { (void)tiny.load(); }), "");
}

}  // namespace
}  // namespace cria::test
