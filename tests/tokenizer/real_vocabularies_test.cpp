// Vocabularies of real models: decoding returns the text. The bundled model is always tested; name
// others with CRIA_TEST_VOCABULARIES="a.gguf:b.gguf" CRIA_TEST_TEXTS="long.txt".
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>

#include "tests/tokenizer/vocabularies.h"

namespace cria::testing {
namespace {

std::vector<std::string> paths(const char* variable) {
  std::vector<std::string> out;
  const char* value = std::getenv(variable);
  std::istringstream list(value == nullptr ? "" : value);
  for (std::string path; std::getline(list, path, ':');) out.push_back(path);
  return out;
}

void append_utf8(char32_t code, std::string& text) {
  const auto byte = [&](unsigned value) { text += static_cast<char>(value); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) return byte(0xC0 | (code >> 6)), byte(0x80 | (code & 0x3F));
  if (code < 0x10000)
    return byte(0xE0 | (code >> 12)), byte(0x80 | ((code >> 6) & 0x3F)), byte(0x80 | (code & 0x3F));
  byte(0xF0 | (code >> 18)), byte(0x80 | ((code >> 12) & 0x3F)), byte(0x80 | ((code >> 6) & 0x3F)),
      byte(0x80 | (code & 0x3F));
}

/// Characters of all planes, mostly of scripts in use, with spaces, digits and marks between.
std::string random_unicode(std::mt19937& random) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x20, 0x7E},     {0x0, 0x1F},      {0xA0, 0x24F},      {0x300, 0x36F},
      {0x370, 0x52F},   {0x590, 0x6FF},   {0x900, 0xDFF},     {0x1100, 0x11FF},
      {0x2000, 0x206F}, {0x2190, 0x2BFF}, {0x3000, 0x30FF},   {0x4E00, 0x9FFF},
      {0xAC00, 0xD7A3}, {0xE000, 0xFFFD}, {0x1F300, 0x1FAFF}, {0x10000, 0x10FFFF}};
  std::string text;
  for (auto n = random() % 60; n > 0; --n) {
    const auto [low, high] = kRanges[random() % 2 == 0 ? 0 : random() % std::size(kRanges)];
    append_utf8(low + random() % (high - low + 1), text);
  }
  return text;
}

TEST(RealVocabularies, TextsComeBack) {
  std::vector<std::string> vocabularies = paths("CRIA_TEST_VOCABULARIES");
  vocabularies.emplace_back(CRIA_DATA "/cria-demo-Q8_0.gguf");
  std::vector<std::string> texts;
  for (const std::string& path : paths("CRIA_TEST_TEXTS")) {
    std::ifstream file(path, std::ios::binary);
    ASSERT_TRUE(file.good()) << path;
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  std::mt19937 random(10'000);
  for (int i = 0; i < 10'000; ++i) texts.push_back(random_unicode(random));
  for (const std::string& path : vocabularies) {
    const GgufFile file = GgufFile::open(path, {.metadata_only = true});
    const Vocabulary vocabulary = Vocabulary::from_gguf(file);
    const auto tokenizer = Tokenizer::create(vocabulary);
    for (const std::string& text : texts) {
      std::vector<std::size_t> ends;
      const Ids ids = tokenizer->encode(text, false, false, &ends);
      ASSERT_EQ(tokenizer->decode(ids), text) << path;
      ASSERT_TRUE(text.empty() || ends.back() == text.size()) << path;
    }
  }
}

}  // namespace
}  // namespace cria::testing
