// Measures compiling constraints, and masks of allowed next tokens along matching texts: for new
// states ("first") and known ones ("cached"). Each GGUF argument is a vocabulary; FILE.gguf:N adds
// pairs of its tokens up to N. Default: the demo model's vocabulary.
//
//   mask_bench qwen2.gguf qwen2.gguf:262144 --benchmark_filter=/first
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/constrain/token_masks.h"
#include "model/error.h"
#include "model/file/json.h"
#include "model/vocabulary.h"

namespace {

using namespace cria;
using Random = std::mt19937;

std::size_t below(Random& random, std::size_t n) { return random() % n; }

std::string words(Random& random, std::size_t n) {
  constexpr const char* kInt16[] = {"the",    "harbour", "Übung",  "of",    "seven", "pale",
                                    "lights", "was",     "a",      "quiet", "place", "where",
                                    "ships",  "東京",    "waited", "often"};
  std::string out;
  for (std::size_t i = 0; i < n; ++i)
    out += (i > 0 ? " " : "") + std::string(kInt16[below(random, 16)]);
  return out;
}

std::string number(Random& random, std::size_t digits) {
  std::string out;
  for (std::size_t i = 0; i < digits; ++i) out += static_cast<char>('0' + below(random, 10));
  return out;
}

struct Case {
  const char* name;
  std::shared_ptr<const Constraint> (*compile)();
  std::string (*text)(Random&);
};

std::string nested_text(Random& random) {
  Json out;
  out["user"]["name"] = words(random, 2);
  out["user"]["address"] = {{"city", words(random, 1)}, {"zip", number(random, 5)}};
  out["tags"] = {"work", "family"};
  for (std::size_t i = 0; i < 1 + below(random, 4); ++i)
    out["items"].push_back({{"title", words(random, 4)},
                            {"count", below(random, 99) + 1},
                            {"price", 12.5},
                            {"sent", i % 2 == 0}});
  out["note"] = words(random, 12);
  return out.dump(below(random, 2) == 0 ? -1 : 2);
}

constexpr const char* kNested = R"({"type":"object","additionalProperties":false,
  "required":["user","tags","items","note"],"properties":{
  "user":{"type":"object","required":["name","address"],"properties":{"name":{"type":"string"},
    "address":{"type":"object","required":["city","zip"],"additionalProperties":false,
      "properties":{"city":{"type":"string"},"zip":{"type":"string","pattern":"^\\d{5}$"}}}}},
  "tags":{"type":"array","items":{"enum":["friend","family","work"]}},
  "items":{"type":"array","minItems":1,"items":{"type":"object","required":["title","count"],"properties":{
    "title":{"type":"string","maxLength":80},"count":{"type":"integer","minimum":1,"maximum":99},
    "price":{"type":"number"},"sent":{"type":"boolean"}}}},
  "note":{"type":["string","null"]}}})";

constexpr const char* kArithmetic = R"gbnf(root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
)gbnf";

std::string term(Random& random, int depth) {
  constexpr const char* kNames[] = {"alpha", "b_2", "total", "x", "count_of_items", "price"};
  const std::size_t kind = below(random, depth > 0 ? 3 : 2);
  if (kind == 0) return kNames[below(random, 6)];
  if (kind == 1) return number(random, 1 + below(random, 4));
  std::string out = "(" + term(random, depth - 1);
  for (std::size_t i = 0; i < 1 + below(random, 3); ++i)
    out += std::string(" ") + "+-*/"[below(random, 4)] + term(random, depth - 1);
  return out + ")";
}

constexpr const char* kRegex =
    R"(([A-Z][a-z]+ ){2,4}<[\w.]{1,40}@[a-z]+\.(com|org)>, \d{4}-(0[1-9]|1[0-2])-\d\d: [^\n]{1,200})";

const Case kCases[] = {
    {"nested object", [] { return Constraint::json_schema(kNested); }, nested_text},
    {"free string",
     [] {
       return Constraint::json_schema(
           R"({"type":"object","properties":{"text":{"type":"string"}}})");
     },
     [](Random& random) {
       return Json{{"text", words(random, 60)}, {"more", words(random, 20)}}.dump();
     }},
    {"string of at most 500",
     [] {
       return Constraint::json_schema(
           R"({"type":"object","properties":{"text":{"type":"string","maxLength":500}},"required":["text"]})");
     },
     [](Random& random) {
       return Json{{"text", words(random, 60)}}.dump();
     }},
    {"regular expression", [] { return Constraint::regex(kRegex); },
     [](Random& random) {
       return "Ada Maria Lovelace <ada." + number(random, 3) + "@analytical.org>, " +
              number(random, 4) + "-12-10: " + words(random, 20);
     }},
    {"arithmetic grammar", [] { return Constraint::gbnf(kArithmetic); },
     [](Random& random) { return term(random, 6) + " = " + term(random, 0) + "\n"; }},
};

struct MeasuredVocabulary {
  explicit MeasuredVocabulary(const std::string& argument);

  // Makes the tables of a vocabulary, which all constraints share.
  void warm() const {
    for (std::size_t kind = 0; kind < kPlainKinds; ++kind)
      (void)trie->plain_tokens(static_cast<PlainKind>(kind));
  }

  std::string name;
  GgufFile file;
  Vocabulary vocabulary;
  std::unique_ptr<Tokenizer> tokenizer;
  std::shared_ptr<const TokenTrie> trie;
};

// Concatenates pairs of the vocabulary's own texts.
void add_pairs(TokenTrie::Texts& all, std::size_t n) {
  Random random(1);
  std::unordered_set<std::string> known(all.texts.begin(), all.texts.end());
  const std::size_t own = all.texts.size();
  while (all.texts.size() < n) {
    std::string pair = all.texts[below(random, own)] + all.texts[below(random, own)];
    if (known.insert(pair).second) all.texts.push_back(std::move(pair));
  }
}

std::string file_of(const std::string& argument) {
  return argument.substr(0, argument.rfind(".gguf") + 5);
}

MeasuredVocabulary::MeasuredVocabulary(const std::string& argument)
    : file(GgufFile::open(file_of(argument), {.metadata_only = true})),
      vocabulary(Vocabulary::from_gguf(file)),
      tokenizer(Tokenizer::create(vocabulary)) {
  TokenTrie::Texts texts = TokenTrie::texts_of(*tokenizer, vocabulary.tokens.size());
  if (const std::string rest = argument.substr(file_of(argument).size()); !rest.empty())
    add_pairs(texts, std::stoul(rest.substr(1)));
  name = std::to_string(texts.texts.size());
  trie = std::make_shared<const TokenTrie>(std::move(texts));
}

double share(std::vector<double>& sorted, double part) {
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
}

struct MaskTimes {
  std::vector<double> first, again;  // microseconds
};

// Follows each text and measures new and known masks.
void walk(const Constraint& constraint, const MeasuredVocabulary& vocabulary,
          const std::vector<std::vector<TokenId>>& texts, MaskTimes& out) {
  std::unordered_set<std::shared_ptr<const TokenBits>> known;
  for (const std::vector<TokenId>& tokens : texts) {
    TokenMasks::Run run(constraint.state().masks(vocabulary.trie), vocabulary.trie);
    for (const TokenId token : tokens) {
      const auto begin = std::chrono::steady_clock::now();
      const auto mask = run.mask();
      const std::chrono::duration<double, std::micro> time =
          std::chrono::steady_clock::now() - begin;
      (known.insert(mask).second ? out.first : out.again).push_back(time.count());
      const auto id = static_cast<std::size_t>(token);
      if (((*mask)[id / 64] >> id % 64 & 1) == 0 || !run.accept(token))
        throw Error("a token of the text is refused: " + vocabulary.tokenizer->piece(token));
    }
    if (!run.whole()) throw Error("the text is not whole");
  }
}

void bench_masks(benchmark::State& state, const Case& one, const MeasuredVocabulary& vocabulary,
                 bool cached) {
  Random random(1);
  std::vector<std::vector<TokenId>> texts;
  for (int i = 0; i < 12; ++i) {
    const std::string text = one.text(random);
    const TextPart parts[] = {{text, false}};
    texts.push_back(vocabulary.tokenizer->encode_parts(parts, nullptr, true));
  }
  vocabulary.warm();
  std::vector<double> all;
  for (auto _ : state) {
    const auto constraint = one.compile();
    MaskTimes times;
    walk(*constraint, vocabulary, texts, times);
    const std::vector<double>& counted = cached ? times.again : times.first;
    double sum = 0;
    for (const double time : counted) sum += time;
    state.SetIterationTime(sum / static_cast<double>(counted.size()) * 1e-6);
    all.insert(all.end(), counted.begin(), counted.end());
  }
  std::ranges::sort(all);
  state.counters["masks"] =
      static_cast<double>(all.size()) / static_cast<double>(state.iterations());
  state.counters["median_us"] = share(all, 0.5);
  state.counters["p99_us"] = share(all, 0.99);
  state.counters["most_us"] = all.back();
}

void bench_compile(benchmark::State& state, const Case& one) {
  for (auto _ : state) benchmark::DoNotOptimize(one.compile());
}

// Measures the preparation of a vocabulary.
void bench_vocabulary(benchmark::State& state, const MeasuredVocabulary& vocabulary) {
  for (auto _ : state) {
    TokenTrie trie(*vocabulary.tokenizer, vocabulary.trie->vocabulary_size);
    for (std::size_t kind = 0; kind < kPlainKinds; ++kind)
      benchmark::DoNotOptimize(trie.plain_tokens(static_cast<PlainKind>(kind)));
  }
}

void register_vocabulary(const MeasuredVocabulary& vocabulary) {
  benchmark::RegisterBenchmark(("Trie/" + vocabulary.name).c_str(), [&](auto& state) {
    bench_vocabulary(state, vocabulary);
  })->Unit(benchmark::kMillisecond);
  for (const Case& one : kCases)
    for (const bool cached : {false, true})
      benchmark::RegisterBenchmark(
          ("Mask/" + vocabulary.name + "/" + one.name + (cached ? "/cached" : "/first")).c_str(),
          [&, cached](auto& state) { bench_masks(state, one, vocabulary, cached); })
          ->UseManualTime()
          ->Iterations(5)
          ->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) arguments.emplace_back(CRIA_DATA "/cria-demo-Q8_0.gguf");
  try {
    for (const Case& one : kCases)
      benchmark::RegisterBenchmark((std::string("Compile/") + one.name).c_str(), [&](auto& state) {
        bench_compile(state, one);
      })->Unit(benchmark::kMillisecond);
    std::vector<std::unique_ptr<MeasuredVocabulary>> vocabularies;
    for (const std::string& argument : arguments)
      register_vocabulary(
          *vocabularies.emplace_back(std::make_unique<MeasuredVocabulary>(argument)));
    benchmark::RunSpecifiedBenchmarks();
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
