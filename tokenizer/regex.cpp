#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/regex.h"

#include <pcre2.h>

#include <cstdint>
#include <limits>
#include <string>

#include "model/error.h"

namespace cria {
namespace {

std::string message_of(int error) {
  PCRE2_UCHAR message[256];
  pcre2_get_error_message(error, message, sizeof message);
  return reinterpret_cast<const char*>(message);
}

}  // namespace

struct Regex::Code {
  Code(std::string_view pattern, Text text) {
    int error = 0;
    std::size_t offset = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                         text == Text::Utf8 ? PCRE2_UTF | PCRE2_UCP : 0, &error, &offset, nullptr);
    if (code == nullptr)
      throw Error("", "not a regular expression: " + message_of(error) + " at character " +
                          std::to_string(offset) + " of \"" + std::string(pattern) + '"');
    jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  }
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  pcre2_code* code;
  bool jit;  ///< false where no memory may be executable: the interpreter does it
};

Regex::Regex(std::string_view pattern, Text text)
    : code_(std::make_shared<const Code>(pattern, text)) {}

struct Regex::Search::State {
  explicit State(std::shared_ptr<const Code> c)
      : code(std::move(c)),
        data(pcre2_match_data_create(1, nullptr)),
        // Texts are as long as they are: the limits are meant for patterns that run away, and ours
        // do not.
        unlimited(pcre2_match_context_create(nullptr)) {
    if (data == nullptr || unlimited == nullptr) throw std::bad_alloc();
    constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
    pcre2_set_match_limit(unlimited, kMost);
    pcre2_set_depth_limit(unlimited, kMost);
    pcre2_set_heap_limit(unlimited, kMost);
  }
  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(unlimited);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::shared_ptr<const Code> code;
  pcre2_match_data* data;
  pcre2_match_context* unlimited;
};

void Regex::Search::Free::operator()(State* state) const { delete state; }

Regex::Search::Search(const Regex& regex) : state_(new State(regex.code_)) {}

std::optional<RegexSpan> Regex::Search::next(std::string_view text, std::size_t from) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const pcre2_code* code = state_->code->code;
  int found = PCRE2_ERROR_JIT_STACKLIMIT;
  if (state_->code->jit)
    found = pcre2_jit_match(code, subject, text.size(), from, 0, state_->data, state_->unlimited);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT)  // the interpreter keeps its state on the heap
    found = pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                        state_->data, state_->unlimited);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0) throw Error("", "a regular expression failed: " + message_of(found));
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(state_->data);
  return RegexSpan{span[0], span[1]};
}

}  // namespace cria
