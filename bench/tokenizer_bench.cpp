// Bytes per second of tokenizing and of its steps, on texts and vocabularies given: every GGUF file
// among the arguments is a vocabulary, every other file a text. Without: the demo model's
// vocabulary, a text made of its words.
//
//   tokenizer_bench llama-bpe.gguf qwen2.gguf wiki.test.raw --benchmark_filter=Encode
#include <benchmark/benchmark.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "model/error.h"
#include "model/vocabulary.h"
#include "tokenizer/bpe/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace {

using namespace cria;

struct OpenVocabulary {
  explicit OpenVocabulary(const std::string& path)
      : file(GgufFile::open(path, {.metadata_only = true})),
        vocabulary(Vocabulary::from_gguf(file)) {}
  GgufFile file;
  Vocabulary vocabulary;
};

struct Text {
  std::string name, bytes;
};

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// A MiB of words with the frequencies of a natural text (the nth is 1/n as frequent as the first).
Text made_text(const Tokenizer& tokenizer) {
  std::mt19937 random(1);
  const auto n = static_cast<double>(tokenizer.vocabulary().tokens.size());
  Text text{"words", {}};
  while (text.bytes.size() < (std::size_t{1} << 20)) {
    const double rank = std::pow(n, std::uniform_real_distribution<double>(0.2, 1)(random));
    text.bytes +=
        tokenizer.piece(std::min(static_cast<TokenId>(rank), static_cast<TokenId>(n) - 1));
  }
  return text;
}

void set_rate(benchmark::State& state, const std::string& text) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

/// The result is checked to be the text again before anything is timed.
void bench_encode(benchmark::State& state, const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<TokenId> ids = tokenizer.encode(text, false, false);
  if (tokenizer.decode(ids) != text) return state.SkipWithError("the text does not come back");
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer.encode(text, false, false));
  set_rate(state, text);
  state.counters["tokens"] = static_cast<double>(ids.size());
}

void bench_decode(benchmark::State& state, const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<TokenId> ids = tokenizer.encode(text, false, false);
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer.decode(ids));
  set_rate(state, text);
}

void bench_split(benchmark::State& state, const PreTokenizer& words, const std::string& text) {
  for (auto _ : state) {
    std::size_t n = 0;
    words.split(text, [&n](std::string_view) { ++n; });
    benchmark::DoNotOptimize(n);
  }
  set_rate(state, text);
}

void bench_create(benchmark::State& state, const Vocabulary& vocabulary) {
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::create(vocabulary));
}

void register_vocabulary(const std::string& path, const OpenVocabulary& open,
                         std::vector<Text> texts) {
  const std::shared_ptr<Tokenizer> tokenizer = Tokenizer::create(open.vocabulary);
  if (texts.empty()) texts.push_back(made_text(*tokenizer));
  const std::string name = base_name(path);
  benchmark::RegisterBenchmark(("Create/" + name).c_str(),
                               [&open](auto& state) { bench_create(state, open.vocabulary); });
  for (const Text& text : texts) {
    const std::string suffix = "/" + name + "/" + text.name;
    benchmark::RegisterBenchmark(("Encode" + suffix).c_str(),
                                 [=](auto& state) { bench_encode(state, *tokenizer, text.bytes); });
    benchmark::RegisterBenchmark(("Decode" + suffix).c_str(),
                                 [=](auto& state) { bench_decode(state, *tokenizer, text.bytes); });
    if (open.vocabulary.model != "gpt2") continue;
    for (const bool shortcuts : {true, false}) {
      auto words = std::make_shared<PreTokenizer>(open.vocabulary.pre);
      if (!shortcuts) words->without_rules();
      benchmark::RegisterBenchmark(((shortcuts ? "Split" : "SplitByRegex") + suffix).c_str(),
                                   [=](auto& state) { bench_split(state, *words, text.bytes); });
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<std::string> vocabularies;
  std::vector<Text> texts;
  for (int i = 1; i < argc; ++i) {
    const std::string path = argv[i];
    if (path.ends_with(".gguf")) {
      vocabularies.push_back(path);
      continue;
    }
    std::ifstream file(path, std::ios::binary);
    texts.push_back({base_name(path), {std::istreambuf_iterator<char>(file), {}}});
    if (texts.back().bytes.empty()) {
      std::cerr << path << ": cannot read the text\n";
      return 1;
    }
  }
  if (vocabularies.empty()) vocabularies.emplace_back(CRIA_DATA "/cria-demo-Q8_0.gguf");
  try {
    std::vector<std::unique_ptr<OpenVocabulary>> open;
    for (const std::string& path : vocabularies)
      register_vocabulary(path, *open.emplace_back(std::make_unique<OpenVocabulary>(path)), texts);
    benchmark::RunSpecifiedBenchmarks();
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
