// Cases 100 to 104: session files, directories of safetensors, prompts.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "engine/session.h"
#include "tests/malformed/refusal.h"
#include "tests/tools/hf_directory.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

/// The text of the Error that a call throws; "" if it throws none.
template <typename Call>
std::string error_text(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MalformedSideFiles, Case100SessionFiles) {
  const TempDirectory directory;
  Image other = valid_model();
  other.tensor("blk.0.ffn_norm.weight").data[5] ^= 1;
  const auto model = Model::load(directory.write("model.gguf", valid_model().bytes()));
  const auto another = Model::load(directory.write("other.gguf", other.bytes()));
  const std::vector<TokenId> tokens = {1, 259, 265};
  Session session(*model, {.n_ctx = 16, .threads = 1}),
      foreign(*another, {.n_ctx = 16, .threads = 1});
  session.eval(tokens);
  const std::string path = directory.path("session");
  session.save(path);
  EXPECT_EQ(error_text([&] { session.load(path); }), "");
  EXPECT_EQ(error_text([&] { foreign.load(path); }),
            path + ": saved with another model than " + directory.path("other.gguf") +
                ", or with other RoPE factors or metadata (at byte 16)");
  const std::string whole = read_file(path);
  for (std::size_t n = 0; n < whole.size(); n += n < 64 ? 1 : 97) {
    directory.write("session", whole.substr(0, n));
    EXPECT_EQ(error_text([&] { session.load(path); }),
              path + (n < 40 ? ": not a session file of cria: too short"
                             : ": wrong size in bytes: expected " + std::to_string(whole.size()) +
                                   ", got " + std::to_string(n)));
  }
  for (std::size_t at = 0; at < whole.size(); at += at < 64 ? 1 : 97) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    directory.write("session", changed);
    EXPECT_TRUE(error_text([&] { session.load(path); }).starts_with(path + ": ")) << at;
  }
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(error_text([&] { session.load(path); }), path + ": cannot read: not a regular file");
  EXPECT_EQ(error_text([&] { session.save(path); }), path + ": cannot write: not a regular file");
}

/// A directory of Hugging Face, to which each test does one harm.
class MalformedSafetensors : public testing::Test {
 protected:
  MalformedSafetensors() { (void)HfDirectory().write(directory_); }
  void expect_weights_refused(const std::string& bytes, const std::string& says) const {
    const std::string path = directory_.write("model.safetensors", bytes);
    expect_conversion_refused(path + ": " + says);
  }
  void expect_conversion_refused(const std::string& says) const {
    expect_error(limited({"convert", directory_.path(), "-o", out()}), says);
    EXPECT_FALSE(fs::exists(out()));
  }
  [[nodiscard]] std::string out() const { return directory_.path("out.gguf"); }

  TempDirectory directory_;
};

TEST_F(MalformedSafetensors, ValidOneConverts) {
  const Result result = limited({"convert", directory_.path(), "-o", out()});
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(MalformedSafetensors, Case102HeaderLength) {
  const std::string whole = read_file(directory_.path("model.safetensors")),
                    says = "bad length of the header: expected at most ";
  expect_weights_refused("", "not a safetensors file: expected at least 9 bytes, got 0");
  expect_weights_refused(raw(std::uint64_t{0}) + whole.substr(8), "*");
  for (const std::uint64_t length : {std::uint64_t{whole.size() - 7}, std::uint64_t{1} << 32,
                                     ~std::uint64_t{0}, ~std::uint64_t{7}})
    expect_weights_refused(raw(length) + whole.substr(8),
                           says + "*, got " + std::to_string(length) + " (at byte 0)");
  expect_weights_refused(whole.substr(0, 4000),
                         "data past the end of the file: expected at most *");
  expect_weights_refused(valid_model().bytes(), "*");
}

TEST_F(MalformedSafetensors, Case102JsonDepth) {
  const auto deep = [](const std::string& open, std::size_t n) {
    std::string text;
    for (std::size_t i = 0; i < n; ++i) text += open;
    return text;
  };
  for (const std::string& json : {"{\"x\":" + deep("[", 200'000), deep("{\"x\":", 200'000)})
    expect_weights_refused(safetensors_file(json, ""), "*");
  (void)HfDirectory().write(directory_);
  directory_.write("config.json", "{\"x\":" + deep("[", 200'000));
  expect_conversion_refused(directory_.path("config.json") + ": *");
  directory_.write("config.json", HfDirectory().config.dump());
  directory_.write("tokenizer.json", deep("{\"x\":", 200'000));
  expect_conversion_refused(directory_.path("tokenizer.json") + ": *");
}

TEST_F(MalformedSafetensors, Case102Offsets) {
  const auto file = [](const std::string& a, const std::string& b) {
    return safetensors_file(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + a +
                                R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + b + "}}",
                            "0123");
  };
  expect_weights_refused(file("[0,2]", "[1,3]"),
                         "data overlap: expected to begin at 2, got 1 (tensor b)");
  expect_weights_refused(file("[0,2]", "[3,5]"),
                         "data past the end of the file: expected at most 4, got 5 (tensor b)");
  expect_weights_refused(file("[2,0]", "[2,4]"), "*(tensor a)");
  expect_weights_refused(file("[0,2]", "[18446744073709551614,18446744073709551615]"),
                         "*(tensor b)");
}

TEST_F(MalformedSafetensors, Case102Sizes) {
  const auto file = [](const std::string& fields) {
    return safetensors_file("{\"x\":{" + fields + "}}", "0123");
  };
  expect_weights_refused(file(R"("dtype":"U8","shape":[3],"data_offsets":[0,4])"),
                         "*expected 3 bytes*(tensor x)");
  expect_weights_refused(file(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"),
                         "*expected 8 bytes*(tensor x)");
  expect_weights_refused(
      file(R"("dtype":"U8","shape":[4294967296,4294967297],"data_offsets":[0,4])"), "*(tensor x)");
  expect_weights_refused(file(R"("dtype":"U8","shape":[-4],"data_offsets":[0,4])"), "*(tensor x)");
  HfDirectory odd;
  odd.tensors["model.norm.weight"] = {63};
  (void)odd.write(directory_);
  expect_conversion_refused("*model.norm.weight*");
}

TEST_F(MalformedSafetensors, Case102Shards) {
  fs::remove(directory_.path("model.safetensors"));
  (void)HfDirectory().write(directory_, 2);
  ASSERT_EQ(limited({"convert", directory_.path(), "-o", out()}).code, 0);
  fs::remove(out());
  const std::string second = directory_.path("part1.safetensors"), bytes = read_file(second);
  fs::remove(second);
  expect_conversion_refused(second + ": cannot open: No such file or directory");
  directory_.write("part1.safetensors", bytes.substr(0, bytes.size() - 1));
  expect_conversion_refused(second + ": *");
  directory_.write("part1.safetensors", read_file(directory_.path("part0.safetensors")));
  expect_conversion_refused(second + ": a tensor that another file has too (tensor *)");
  directory_.write("model.safetensors.index.json", R"({"weight_map":{"a":"../../etc/passwd"}})");
  expect_conversion_refused(directory_.path("model.safetensors.index.json") +
                            ": bad name of a file: *");
}

TEST(MalformedPrompt, Case104InvalidUtf8) {
  const TempDirectory directory;
  for (const Image& image : {valid_model(), valid_byte_pair_model()}) {
    const std::string model = directory.write("model.gguf", image.bytes());
    const std::string bytes =
        "H\xFF\xC0\xAF\xED\xA0\x80\xF8 \xE2\x82";  // every kind of invalid byte
    const Result ids = limited({"tokenize", "-m", model, "--ids"}, bytes);
    EXPECT_EQ(ids.code, 0) << ids.err;
    const Result back = limited({"tokenize", "-m", model, "--decode"}, ids.out);
    EXPECT_EQ(back.out, bytes);
    const std::string file = directory.write("prompt", bytes);
    for (const char* chat : {"--json", "--chat"}) {
      const Result result = limited({"run", "-m", model, "-f", file, "-n", "3", "-t", "1", chat});
      EXPECT_EQ(result.code, 0) << result.err;
    }
  }
}

TEST(MalformedPrompt, Case104LargerThanMemory) {
  const TempDirectory directory;
  Image image = valid_model();
  image.set("tokenizer.chat_template") = std::string("{{ messages[0].content }}");
  const std::string model = directory.write("model.gguf", image.bytes()),
                    prompt = directory.write("prompt", "");
  ASSERT_EQ(truncate(prompt.c_str(), off_t{3} << 30), 0);
  for (const char* chat : {"--json", "--chat"})
    expect_error(
        limited({"run", "-m", model, "-f", prompt, chat}),
        prompt + ": too large for a prompt: expected at most 67108864 bytes, got 3221225472");
  expect_error(limited({"run", "--raw", "-m", model}, std::string(30'000, 'x')),
               "the prompt is too long: expected at most 128 tokens, got 30002 (-c N makes the "
               "context larger)");
}

}  // namespace
}  // namespace cria::test
