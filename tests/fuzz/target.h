// Fuzz targets: functions of untrusted bytes. The fuzzer (fuzz_main.cpp) invents inputs; the tests
// (fuzz_test.cpp) run the seeds and the inputs in regressions/ that once revealed a bug.
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

/// An invariant does not hold.
class Violation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};
inline void require(bool holds, const char* what) {
  if (!holds) throw Violation(what);
}

struct Target {
  std::string_view name;
  /// Takes any bytes. An Error is a refusal; any other exception is a bug.
  void (*run)(std::string_view input);
  /// Seeds; valid ones come first.
  std::vector<std::string> (*seeds)();
  /// Changes an input but mostly keeps its format; null: only random bytes are changed.
  std::string (*mutate)(std::string_view input, Random& random, std::size_t max_bytes) = nullptr;
  /// Words of the format for libFuzzer's dictionary.
  std::vector<std::string> (*words)() = nullptr;
};

// Each is defined in the file of its name.
extern const Target kArchitecture, kCApi, kChatTemplate, kCommandLine, kConversation, kEdit, kGbnf,
    kGguf, kHfConfig, kHfDirectory, kImportance, kJinja, kJsonSchema, kKernels, kMapping, kModel,
    kPlan, kRegularExpression, kRequest, kRewrite, kSafetensors, kSentencePieceModel, kSession,
    kTokenizer, kTokenizerJson, kToolCalls, kUnigram, kVocabulary, kWordPiece;

/// All targets, by name.
std::span<const Target> targets();
/// Returns the target of that name, or null.
const Target* find_target(std::string_view name);

/// Runs a target on an input. Throws Violation if a refusal's message is not one line of text.
void run(const Target& target, std::string_view input);

}  // namespace cria::fuzz
