// How an answer is drawn and where it ends, as OpenAI's requests say it.
#pragma once

#include <span>
#include <string_view>

#include "engine/session.h"
#include "tools/options/fields.h"

namespace cria::tools {

/// What "logprobs" may be.
enum class LogprobsForm : std::uint8_t {
  Chat,        ///< true or false, and "top_logprobs"
  Completion,  ///< how many alternatives
  Either,
};

struct AnswerFieldsForm {
  LogprobsForm logprobs = LogprobsForm::Either;
  std::int64_t least_tokens = 0;   ///< that "max_tokens" may ask for
  std::size_t n_vocab = SIZE_MAX;  ///< ids of "logit_bias" are below it
};

/// Below 2^53, so that JavaScript can hold it.
std::uint64_t random_request_seed();

/// Sets what the fields say; what they do not, stays. A seed of -1 is drawn. Throws RequestError.
void read_answer_fields(const Fields& fields, const AnswerFieldsForm& form,
                        GenerateOptions& options);

/// Fields that ask for what is not there: to ignore them would be to half obey. Throws
/// RequestError.
void reject_unsupported_fields(const Fields& fields);

/// The names of the fields that read_answer_fields() knows.
std::span<const std::string_view> answer_field_names();

}  // namespace cria::tools
