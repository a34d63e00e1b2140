// Fuzz targets: what reads a stranger's bytes, as a function of them. The fuzzer (fuzz_main.cpp)
// makes inputs up; the tests (fuzz_test.cpp) run the seeds and the inputs in regressions/ that once
// showed a bug.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cria::fuzz {

using Random = std::minstd_rand;

/// What must hold whatever the input is did not.
class Violation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};
inline void require(bool holds, const char* what) {
  if (!holds) throw Violation(what);
}

struct Target {
  std::string_view name;
  /// Takes any bytes; an Error is a refusal, whatever else is thrown a bug.
  void (*run)(std::string_view input);
  /// Inputs to begin with, valid ones in the first place.
  std::vector<std::string> (*seeds)();
  /// Changes an input so that it keeps its form, more or less; null: bytes are changed at random
  /// only.
  std::string (*mutate)(std::string_view input, Random& random, std::size_t max_bytes) = nullptr;
  /// Words of the form, for libFuzzer's dictionary.
  std::vector<std::string> (*words)() = nullptr;
};

// Each is defined in the file that is named like it.
extern const Target kArchitecture, kCApi, kChatTemplate, kCommandLine, kConversation, kEdit, kGbnf,
    kGguf, kHfConfig, kHfDirectory, kImportance, kJinja, kJsonSchema, kKernels, kMapping, kModel,
    kRegularExpression, kRequest, kRewrite, kSafetensors, kSentencePieceModel, kSession, kTokenizer,
    kTokenizerJson, kToolCalls, kVocabulary;

/// All of them, by name.
std::span<const Target> targets();
/// Null where there is none of that name.
const Target* find_target(std::string_view name);

/// Runs a target on an input. Throws Violation where a refusal's message is not one line of text.
void run(const Target& target, std::string_view input);

}  // namespace cria::fuzz
