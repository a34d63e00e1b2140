// Decisions: how likely the options of a question are, by the probabilities of their letters.
#pragma once

#include "tools/serve/api/api.h"

namespace cria::serve {

/// An answer that a question offers.
struct DecisionOption {
  Json value;               ///< a string, or true or false
  std::string description;  ///< or ""
};

struct DecisionQuestion {
  enum class Kind : std::uint8_t { Predicate, Choice, Score };
  Kind kind = Kind::Predicate;
  Json name;         ///< a string, or null
  std::string path;  ///< in the request
  std::string instructions;
  std::vector<DecisionOption> options;  ///< 2 to 255
};

/// A request of /v1/decisions or /v1/systemone.
struct DecisionRequest {
  EqualRequest conversation;  ///< of chat completions, without the question
  std::vector<DecisionQuestion> questions;
  bool systemone = false;  ///< the form of the answer
};

/// Throw RequestError with the path at fault.
DecisionRequest read_decisions_request(const Json& body, std::uint64_t scope, ResponseStore& store);
DecisionRequest read_systemone_request(const Json& body);

/// Returns the text that asks the question: instructions, a line for each option, "A) …", and
/// "Answer with one letter."
std::string decision_text(const DecisionQuestion& question);
/// Returns the label of an option of `count`: A to Z, or with more than 26 of them AA, AB, …
std::string decision_label(std::size_t option, std::size_t count);

/// Returns the members of an answer. probabilities: of the options; their sum is 1.
Json decision_json(const DecisionQuestion& question, bool systemone,
                   std::span<const double> probabilities);

/// API and store must outlive the routes.
std::vector<Route> decisions_routes(Api& api, ResponseStore& store);

}  // namespace cria::serve
