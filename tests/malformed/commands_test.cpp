// The other subcommands on bad files: they use the same reader, and write nothing if they refuse a
// file.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "kernels/simd/round.h"
#include "tests/malformed/refusal.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

/// Commands that read a model at `model` and write, if anything, into `folder`.
std::vector<std::vector<std::string>> readers(const std::string& model, const std::string& folder) {
  return {{"inspect", model},
          {"inspect", model, "--json", "--kv", "--tensors", "--tokenizer"},
          {"inspect", model, "--check"},
          {"inspect", model, "--graph"},
          {"inspect", model, "--diff", model},
          {"tokenize", "-m", model, "-p", "Hi!"},
          {"logits", "-m", model, "--tokens", "1,2,3", "-o", folder + "/logits"},
          {"quantize", model, folder + "/quantized.gguf", "Q4_0", "--allow-requantize"},
          {"split", model, folder + "/split", "--max-tensors", "12"},
          {"export", model, "-o", folder + "/exported"}};
}

// The header is refused by all of them, in the same words.
TEST(MalformedCommands, HeadersAreRefusedByAll) {
  const std::vector<Defect> defects = {
      {"unknown GGUF version: expected 1 to 3, got 9 (at byte 4)", [](Image& m) { m.version = 9; }},
      {"duplicate key (key general.name)", [](Image& m) { m.first_key("general.name"); }},
      {"bad alignment: expected a power of two from 8 to 1048576, got 0 (key general.alignment)",
       [](Image& m) { m.set("general.alignment") = 0U; }},
      {"unknown tensor type: got 396, a type of the ik_llama.cpp fork (tensor output.weight)",
       [](Image& m) { m.tensors.back().type = 396; }},
      {"tensor overlaps the one before it: expected an offset of at least 18088, got 0 (tensor "
       "output_norm.weight)",
       [](Image& m) { m.tensor("output_norm.weight").offset = 0; }},
      {"offset past any file: got 18446744073709551584 (tensor output.weight)",
       [](Image& m) { m.tensors.back().offset = ~std::uint64_t{31}; }},
  };
  const TempDirectory directory;
  for (const Defect& defect : defects) {
    Image image = valid_model();
    defect.apply(image);
    const std::string path = directory.write("bad.gguf", image.bytes());
    for (const auto& arguments : readers(path, directory.path())) {
      SCOPED_TRACE(arguments[0]);
      expect_error(limited(arguments), path + ": " + defect.says);
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), {}), 1)
        << "something was written";
  }
}

// Contents are shown, or refused with one line; nothing crashes.
TEST(MalformedCommands, ContentsAreRefusedOrShown) {
  const std::vector<std::function<void(Image&)>> harms = {
      [](Image& m) { m.tensors.back().data.pop_back(); },
      [](Image& m) { m.tensors.clear(); },
      [](Image& m) { m.keys.clear(); },
      [](Image& m) { m.set("general.architecture") = std::string("emu"); },
      [](Image& m) { m.set("general.name") = std::string("a\nb\x1b[31m\xFF"); },
      [](Image& m) { m.set("llama.block_count") = std::string("two"); },
      [](Image& m) { m.set("tokenizer.ggml.tokens") = 7U; },
      [](Image& m) {
        m.tensor("blk.0.attn_q.weight")
            .data.replace(34, 2, raw(f32_to_f16(std::numeric_limits<float>::infinity())));
      },
      [](Image& m) {
        m.tensor("blk.0.ffn_down.weight").type = 24;
        m.tensor("blk.0.ffn_down.weight").data.resize(256 * 64);
      },
      [](Image& m) {
        m.tensors.back() = {"output.weight", {1, 1, 1, 1}, 0, std::string(4, '\0')};
      },
  };
  for (const auto& harm : harms) {
    const TempDirectory directory;
    Image image = valid_model();
    harm(image);
    const std::string path = directory.write("bad.gguf", image.bytes());
    for (const auto& arguments : readers(path, directory.path())) {
      const Result result = limited(arguments);
      EXPECT_TRUE(result.code == 0 || result.code == 1)
          << arguments[0] << ": " << result.code << ": " << result.err;
      if (result.code == 0 || arguments[0] == "inspect") continue;
      EXPECT_EQ(result.err.rfind("cria: error: " + path + ": ", 0), 0U)
          << arguments[0] << ": " << result.err;
      EXPECT_EQ(count_lines(result.err), 1U) << arguments[0] << ": " << result.err;
    }
  }
}

// Long arrays are shown by their length only.
TEST(MalformedCommands, InspectShowsLongArraysInLittleMemory) {
  Image image = valid_model();
  const std::uint64_t n = 4 << 20;
  Image::Key& key = image.first_key("x");
  key.type = 9;  // an array of one array of bytes
  key.payload = raw(9U) + raw(std::uint64_t{1}) + raw(0U) + raw(n) + std::string(n, '\7');
  const TempDirectory directory;
  const Result result = limited({"inspect", directory.write("long.gguf", image.bytes())});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("[[7,7,7,7,7,7,7,7]]"), std::string::npos)
      << result.out.substr(0, 1000);
}

}  // namespace
}  // namespace cria::test
