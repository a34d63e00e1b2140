// Fields of a request that say how its answer is sampled, what ends it, and what form it has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/constrain/constraint.h"
#include "engine/session.h"
#include "model/file/json.h"
#include "tools/requests/fields.h"

namespace cria::tools {

/// The types that "logprobs" may have.
enum class LogprobsForm : std::uint8_t {
  Chat,        ///< true or false, and "top_logprobs"
  Completion,  ///< the number of alternatives
  Either,
};

/// The limit of an answer's tokens has several names; the first one given counts.
inline constexpr std::string_view kMaxTokensNames[] = {
    "max_completion_tokens", "max_tokens",     "n_predict",
    "max_output_tokens",     "max_new_tokens", "num_predict"};

struct AnswerFieldsForm {
  LogprobsForm logprobs = LogprobsForm::Either;
  std::int64_t min_tokens = 0;               ///< minimum of "max_tokens"
  std::size_t n_vocab = SIZE_MAX;            ///< limit of the ids in "logit_bias"
  std::optional<std::size_t> adapters = {};  ///< "lora" is known: ids of adapters are below this
};

/// Returns a seed below 2^53, which JavaScript can hold.
std::uint64_t random_request_seed();

/// Returns the fields that ask for these options, one for each row of kSamplerOptions.
Json sampler_fields(const SamplerOptions& options);

/// Sets the options that the fields give (all of kSamplerOptions, max_tokens, stop, ignore_eos,
/// logprobs) and leaves the others. A seed of -1 becomes a random one. Throws RequestError.
void read_answer_fields(const Fields& fields, const AnswerFieldsForm& form,
                        GenerateOptions& options);

/// The form that an answer must have.
struct ConstraintFields {
  enum class Kind : std::uint8_t { None, JsonObject, JsonSchema, Grammar };
  Kind kind = Kind::None;
  std::string text;  ///< the schema as JSON, or the grammar
  std::string path;  ///< path of the field that gives it

  /// True if the answer must be JSON.
  [[nodiscard]] bool json() const { return kind == Kind::JsonObject || kind == Kind::JsonSchema; }
};

/// True for 1 to 64 of [A-Za-z0-9_-], the names of schemas and tools.
bool is_name(const std::string& name);
inline constexpr const char* kNameForm = "1 to 64 letters, digits, _ and -";

/// Reads "response_format" and "grammar". Throws RequestError with the path at fault.
ConstraintFields read_constraint_fields(const Fields& body);
/// Returns null if any answer will do. Throws RequestError "invalid_schema" or "invalid_grammar".
std::shared_ptr<const Constraint> compile(const ConstraintFields& fields);

}  // namespace cria::tools
