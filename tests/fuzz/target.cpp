#include "tests/fuzz/target.h"

#include <algorithm>

#include "model/error.h"

namespace cria::fuzz {

std::span<const Target> targets() {
  static const Target all[] = {kArchitecture,  kCApi,
                               kChatTemplate,  kCommandLine,
                               kConversation,  kEdit,
                               kGbnf,          kGguf,
                               kHfConfig,      kHfDirectory,
                               kImportance,    kJinja,
                               kJsonSchema,    kKernels,
                               kMapping,       kModel,
                               kPlan,          kRegularExpression,
                               kRequest,       kRewrite,
                               kSafetensors,   kSentencePieceModel,
                               kSession,       kTokenizer,
                               kTokenizerJson, kToolCalls,
                               kUnigram,       kVocabulary,
                               kWordPiece};
  return all;
}

const Target* find_target(std::string_view name) {
  const auto found = std::ranges::find(targets(), name, &Target::name);
  return found == targets().end() ? nullptr : &*found;
}

void run(const Target& target, std::string_view input) {
  try {
    target.run(input);
  } catch (const Error& error) {
    const std::string_view message = error.what();
    require(!message.empty(), "an error without a message");
    require(message.find('\n') == std::string_view::npos, "a message of several lines");
  }
}

}  // namespace cria::fuzz
