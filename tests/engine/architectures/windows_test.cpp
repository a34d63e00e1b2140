// Windows and chunks: which layers have them as files say it in various ways, and what the cache
// keeps.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/architectures/architecture_cases.h"
#include "tests/engine/demo.h"

namespace cria::test {
namespace {

// With a window of 0, every layer has the same rotation and sees all positions, for any pattern.
TEST(Windows, None) {
  for (const std::string arch : {"gemma3", "olmo2", "exaone4"}) {
    TinyArchitecture tiny({"w", arch, {{"attention.sliding_window", 8U}}, {}, 0});
    const auto graph = [&] { return tiny.load()->graph().to_string(); };
    EXPECT_NE(graph().find("window 8"), std::string::npos) << arch;
    tiny.keys[arch + ".attention.sliding_window_pattern"] = flags({0, 0, 0, 0});
    const std::string full = graph();
    tiny.keys[arch + ".attention.sliding_window_pattern"] = flags({1, 1, 1, 0});
    tiny.keys[arch + ".attention.sliding_window"] = 0U;
    const std::string none = graph();
    EXPECT_EQ(none.find("window"), std::string::npos) << none;
    tiny.keys.erase(arch + ".attention.sliding_window");
    if (arch == "gemma3") {
      EXPECT_EQ(none, full);
    }
    EXPECT_EQ(graph(), none) << arch;
  }
}

// Old files of Phi 3 for short contexts lack the key.
TEST(Windows, OfPhi3) {
  Shapes enough;  // enough tensors for 32 layers
  for (int i = 0; i < 32; ++i) enough.push_back({std::to_string(i) + ".padding", {64}});
  TinyArchitecture tiny(
      {"w", "phi3", {{"block_count", 32U}, {"context_length", 4096U}}, enough, 0});
  const auto windows = [&](const std::string& length) {
    return tiny.load()->graph().to_string().find("window " + length) != std::string::npos;
  };
  EXPECT_TRUE(windows("2047"));
  tiny.keys["phi3.context_length"] = 8192U;
  EXPECT_FALSE(windows(""));
  tiny.keys["phi3.context_length"] = 4096U;
  tiny.keys["phi3.attention.sliding_window"] = 0U;
  EXPECT_FALSE(windows(""));
}

TEST(Windows, NumbersAsFlags) {
  for (const std::string arch : {"gemma3", "gemma4"}) {
    TinyArchitecture tiny({"w",
                           arch,
                           {{"attention.sliding_window", 8U},
                            {"attention.sliding_window_pattern", flags({1, 0, 0, 1})}},
                           {},
                           0});
    GgufData& pattern = tiny.keys[arch + ".attention.sliding_window_pattern"];
    const std::string want = tiny.load()->graph().to_string();
    pattern = GgufArray::of(std::vector<std::int32_t>{1, 0, 0, 1});
    EXPECT_EQ(tiny.load()->graph().to_string(), want);
    pattern = GgufArray::of(std::vector<std::uint32_t>{1, 0, 0});
    EXPECT_NE(error_of([&] { (void)tiny.load(); }).find("expected one value per layer, 4, got 3"),
              std::string::npos);
    pattern = GgufArray::of(std::vector<float>{1, 0, 0, 1});
    EXPECT_THROW((void)tiny.load(), Error);
  }
}

// MobileLLM is a Llama 4 without chunks: all layers are rotated, and no query grows with its
// position.
TEST(Windows, NoChunks) {
  TinyArchitecture tiny({"w", "llama4", {}, {}, 0});
  const auto graph = [&] { return tiny.load()->graph().to_string(); };
  const std::string usual = graph();
  for (const char* what : {"chunks of 8192", "no rope", "temperature 0.1"})
    EXPECT_NE(usual.find(what), std::string::npos) << what;
  tiny.keys["llama4.attention.sliding_window"] = 8192U;
  EXPECT_EQ(graph(), usual);
  tiny.keys["llama4.attention.sliding_window"] = 0U;
  const std::string whole = graph();
  for (const char* what : {"chunks", "no rope", "temperature"})
    EXPECT_EQ(whole.find(what), std::string::npos) << whole;
  std::size_t norms = 0;
  for (std::size_t at = 0; (at = whole.find("norms after rope", at)) != std::string::npos; ++at)
    ++norms;
  EXPECT_EQ(norms, TinyArchitecture::kLayers);
}

TEST(Windows, KeepOnlyNeededPages) {
  const auto model =
      TinyArchitecture({"w", "cohere2", {{"attention.sliding_window", 8U}}, {}, 0}).load();
  const EngineMemory wide = session_memory(*model, {.n_ctx = 256, .n_batch = 256});
  const EngineMemory narrow = session_memory(*model, {.n_ctx = 256, .n_batch = 16});
  // Three of four layers need two pages of four.
  EXPECT_EQ(narrow.kv, wide.kv / 4 + wide.kv / 4 * 3 / 2);
}

TEST(Windows, RewindOnlyToCachedKeys) {
  const auto model =
      TinyArchitecture({"w", "cohere2", {{"attention.sliding_window", 8U}}, {}, 0}).load();
  Session session(*model, {.n_ctx = 256, .n_batch = 16, .threads = 1});
  std::vector<TokenId> tokens(200, 3);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i * 7 % 40);
  session.eval(tokens);
  EXPECT_EQ(session.truncate(198), 198U);
  const std::span<const float> again = session.eval(std::span(tokens).subspan(198));
  const std::vector<float> first(again.begin(), again.end());
  EXPECT_EQ(session.truncate(100), 0U) << "its keys are gone";
  const std::span<const float> fresh = session.eval(tokens);
  EXPECT_TRUE(std::equal(fresh.begin(), fresh.end(), first.begin(), first.end()));
}

}  // namespace
}  // namespace cria::test
