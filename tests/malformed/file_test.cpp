// Cases 1 to 14: paths that are not files, files that are not GGUF, and files that end too early.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <span>

#include "tests/malformed/refusal.h"

namespace cria::test {
namespace {

constexpr std::uint64_t kMax = ~std::uint64_t{0};

TEST(MalformedFile, ValidFilesAnswer) {
  for (const Image& image : {valid_model(), valid_byte_pair_model()}) {
    const Result result = expect_answer(image);
    EXPECT_EQ(result.err, "");
  }
}

TEST(MalformedFile, Case001Missing) {
  const TempDirectory directory;
  const std::string path = directory.path("none.gguf");
  expect_error(limited(answer_from(path)), path + ": cannot open: No such file or directory");
}

TEST(MalformedFile, Case002Directory) {
  const TempDirectory directory;
  expect_error(limited(answer_from(directory.path())),
               directory.path() + ": is a directory: expected a GGUF file");
}

TEST(MalformedFile, Case003Empty) {
  expect_bytes_refused("", "file is empty: expected a GGUF file");
}

TEST(MalformedFile, Case004OneToThreeBytes) {
  const std::string start = "not a GGUF file: expected the bytes 'GGUF', got the bytes ";
  expect_bytes_refused("G", start + "47 (at byte 0)");
  expect_bytes_refused("GG", start + "47 47 (at byte 0)");
  expect_bytes_refused("GGU", start + "47 47 55 (at byte 0)");
}

TEST(MalformedFile, Case005Magic) {
  const auto magic = [](const std::string& bytes) {
    return [bytes](Image& m) { m.magic = bytes; };
  };
  const std::string start = "not a GGUF file: expected the bytes 'GGUF', got ";
  expect_refused({
      {start + "the bytes 41 42 43 44 (at byte 0)", magic("ABCD")},
      {start + "a GGUF file with swapped bytes (big-endian) (at byte 0)", magic("FUGG")},
      {start + "a GGML file (before GGUF): convert the model again (at byte 0)", magic("lmgg")},
      {start + "a GGMF file (before GGUF): convert the model again (at byte 0)", magic("fmgg")},
      {start + "a GGJT file (before GGUF): convert the model again (at byte 0)", magic("tjgg")},
      {start + "a GGLA adapter (before GGUF): convert it again (at byte 0)", magic("algg")},
  });
}

TEST(MalformedFile, Case006HtmlPage) {
  expect_bytes_refused("\n<!DOCTYPE html>\n<html><body>404</body></html>\n",
                       "not a GGUF file: expected the bytes 'GGUF', got an HTML page (a failed "
                       "download?) (at byte 0)");
}

TEST(MalformedFile, Case007OtherFormats) {
  const std::string start = "not a GGUF file: expected the bytes 'GGUF', got ";
  expect_bytes_refused(
      "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7\n",
      start + "a Git LFS pointer: fetch the file itself with `git lfs pull` (at byte 0)");
  expect_bytes_refused(raw(std::uint64_t{24}) + R"({"__metadata__":{}}     )",
                       start + "a safetensors file: convert it with `cria convert` (at byte 0)");
  expect_bytes_refused("PK\x03\x04 and so on",
                       start + "a zip archive (a PyTorch checkpoint?) (at byte 0)");
}

TEST(MalformedFile, Case008Version) {
  const auto version = [](std::uint32_t n) { return [n](Image& m) { m.version = n; }; };
  expect_refused({
      {"unknown GGUF version: expected 1 to 3, got 0 (at byte 4)", version(0)},
      {"unknown GGUF version: expected 1 to 3, got 4 (at byte 4)", version(4)},
      {"unknown GGUF version: expected 1 to 3, got 4294967295 (at byte 4)", version(UINT32_MAX)},
  });
}

TEST(MalformedFile, Case009BigEndian) {
  expect_refused(
      {{"big-endian GGUF file: expected little-endian numbers; convert the file (at byte 4)",
        [](Image& m) { m.version = 0x03000000; }}});
}

// In this process, as there are thousands; the bytes lie in a block of their own for
// AddressSanitizer's sake.
TEST(MalformedFile, Case010EveryPrefixOfTheHeader) {
  for (const Image& image : {valid_model(), valid_byte_pair_model()}) {
    const std::string bytes = image.header();
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      const std::vector<char> exact(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
      try {
        GgufFile::from_bytes(std::as_bytes(std::span(exact)), "cut");
        FAIL() << n << " bytes of the header were enough";
      } catch (const Error& error) {
        const std::string text = error.what();
        ASSERT_EQ(text.rfind("cut: ", 0), 0U) << text;
        ASSERT_NE(text.find("expected "), std::string::npos) << text;
        ASSERT_TRUE(n == 0 || text.find("at byte ") != std::string::npos) << text;
      }
    }
  }
}

TEST(MalformedFile, Case010PrefixesInTheProgram) {
  const std::string bytes = valid_model().bytes();
  expect_bytes_refused(bytes.substr(0, 4),
                       "file ends inside the version: expected 4 more bytes, got 0 (at byte 4)");
  expect_bytes_refused(bytes.substr(0, 23),
                       "impossible tensor count: expected at most 0, got 21 (at byte 8)");
  expect_bytes_refused(bytes.substr(0, 500),
                       "impossible tensor count: expected at most *, got 21 (at byte 8)");
  expect_bytes_refused(
      bytes.substr(0, 3000),
      "file ends inside a string: expected * (key tokenizer.ggml.tokens, at byte *)");
}

TEST(MalformedFile, Case011TensorCount) {
  const auto count = [](std::uint64_t n) { return [n](Image& m) { m.tensor_count = n; }; };
  expect_refused({
      {"impossible tensor count: expected at most *, got 18446744073709551615 (at byte 8)",
       count(kMax)},
      {"impossible tensor count: expected at most *, got 9223372036854775808 (at byte 8)",
       count(kMax / 2 + 1)},
      {"impossible tensor count: expected at most *, got 1000001 (at byte 8)", count(1'000'001)},
  });
}

TEST(MalformedFile, Case012KeyCount) {
  const auto count = [](std::uint64_t n) { return [n](Image& m) { m.key_count = n; }; };
  expect_refused({
      {"impossible key count: expected at most *, got 18446744073709551615 (at byte 16)",
       count(kMax)},
      {"impossible key count: expected at most *, got 4294967296 (at byte 16)",
       count(std::uint64_t{1} << 32)},
      {"impossible key count: expected at most *, got 100001 (at byte 16)", count(100'001)},
  });
}

TEST(MalformedFile, Case013VocabularyOnly) {
  const std::string says = "no tensors: the file holds a vocabulary, not a model";
  expect_refused({{says, [](Image& m) { m.tensors.clear(); }}});
  const TempDirectory directory;
  const std::string path = directory.write("vocabulary.gguf", valid_vocabulary().bytes());
  const Result result = limited({"tokenize", "-m", path, "-p", "Hi!", "--ids"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "1 259 265\n");
}

TEST(MalformedFile, Case014Pipe) {
  const TempDirectory directory;
  const std::string pipe = directory.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string says = ": is not a regular file (a pipe or device): expected a GGUF file";
  expect_error(limited(answer_from(pipe)), pipe + says);
  expect_error(limited(answer_from(pipe, {"--no-mmap"})), pipe + says);
  expect_error(limited(answer_from("/dev/zero")), "/dev/zero" + says);
}

TEST(MalformedFile, Case014Unreadable) {
  const TempDirectory directory;
  const std::string path = directory.write("secret.gguf", valid_model().bytes());
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  expect_error(limited(answer_from(path), "", obey_file_modes),
               path + ": cannot open: Permission denied");
}

}  // namespace
}  // namespace cria::test
