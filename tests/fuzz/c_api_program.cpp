#include "tests/fuzz/c_api_program.h"

namespace cria::fuzz {
namespace {

/// Every function refuses freed handles.
void refused_by_all(std::uint64_t id) {
  cria_model_info info = CRIA_STRUCT(cria_model_info);
  cria_engine_options options = CRIA_STRUCT(cria_engine_options);
  cria_request request = CRIA_STRUCT(cria_request);
  cria_piece piece = CRIA_STRUCT(cria_piece);
  cria_result result = CRIA_STRUCT(cria_result);
  cria_perplexity_result perplexity = CRIA_STRUCT(cria_perplexity_result);
  cria_engine engine{};
  cria_sampler sampler{};
  cria_sequence sequence{};
  cria_answer answer{};
  cria_score score{};
  const cria_token token = 4;
  const cria_message message{"user", "a", nullptr};
  const cria_slice slice{{id}, &token, 1, 1};
  const cria_token two[] = {4, 5};
  const cria_scored scored{two, 2, 1};
  std::size_t n = 0;
  char text[8];
  cria_token tokens[8];
  float floats[64];
  request.tokens = &token;
  request.n_tokens = 1;
  const cria_status all[] = {cria_model_get_info({id}, &info),
                             cria_tokenize({id}, "a", 1, 0, tokens, 8, &n),
                             cria_detokenize({id}, &token, 1, 0, text, 8, &n),
                             cria_apply_template({id}, &message, 1, nullptr, text, 8, &n),
                             cria_template_tokens({id}, &message, 1, nullptr, tokens, 8, &n),
                             cria_sampler_create({id}, &sampler),
                             cria_sampler_set({id}, "top_k", 1),
                             cria_sampler_set_seed({id}, 1),
                             cria_sampler_set_steps({id}, "top_k"),
                             cria_sampler_set_bias({id}, 1, 1),
                             cria_sampler_set_dry_breakers({id}, nullptr, 0),
                             cria_constraint_check({id}, "a", 1, nullptr, nullptr),
                             cria_engine_create({id}, nullptr, &engine),
                             cria_engine_get_options({id}, &options),
                             cria_engine_cancel({id}),
                             cria_engine_step({id}, nullptr),
                             cria_answer_begin({id}, &request, &answer),
                             cria_answer_next({id}, &piece),
                             cria_answer_poll({id}, &piece),
                             cria_answer_cancel({id}),
                             cria_answer_result({id}, &result),
                             cria_logits({id}, &token, 1, 0, floats, 64, &n),
                             cria_embed({id}, &token, 1, CRIA_POOL_MEAN, floats, 64, &n),
                             cria_rerank({id}, "q", 1, nullptr, nullptr, 0, nullptr),
                             cria_sequence_create({id}, 0, &sequence),
                             cria_sequence_fork({id}, &sequence),
                             cria_sequence_truncate({id}, 0, nullptr),
                             cria_sequence_reuse({id}, &token, 1, nullptr),
                             cria_sequence_tokens({id}, tokens, 8, &n),
                             cria_forward(&slice, 1, nullptr, 0, &n),
                             cria_score_tokens({id}, &scored, 1, 0, &score, 1, &n),
                             cria_perplexity({id}, "a", 1, nullptr, &perplexity),
                             cria_model_free({id}),
                             cria_engine_free({id}),
                             cria_sequence_free({id}),
                             cria_sampler_free({id}),
                             cria_constraint_free({id}),
                             cria_answer_free({id})};
  for (const cria_status status : all)
    require(status == CRIA_ERROR_HANDLE, "a handle that was freed is taken");
}

}  // namespace

void CProgram::check(cria_status status) const {
  require(status >= CRIA_ERROR_CANCELLED && status <= CRIA_AGAIN,
          "unknown status or internal error");
  if (status >= CRIA_OK) return require(!wrong_, "a wrong argument is taken");
  const std::string_view message = cria_last_error();
  require(!message.empty() && message.find('\n') == std::string_view::npos,
          "an error's message is not a line");
  require(status != CRIA_ERROR_HANDLE || stale_ || stale_inside_, "a valid handle is refused");
}

struct CProgram::Call {
  std::string_view name;
  void (CProgram::*make)();
};
std::span<const CProgram::Call> CProgram::calls() {
  static constexpr Call kCalls[] = {{"model_load", &CProgram::model_load},
                                    {"model_free", &CProgram::model_free},
                                    {"model_info", &CProgram::model_info},
                                    {"tokenize", &CProgram::tokenize},
                                    {"detokenize", &CProgram::detokenize},
                                    {"apply_template", &CProgram::apply_template},
                                    {"sampler_create", &CProgram::sampler_create},
                                    {"sampler_set", &CProgram::sampler_set},
                                    {"sampler_set_more", &CProgram::sampler_set_more},
                                    {"sampler_free", &CProgram::sampler_free},
                                    {"constrain", &CProgram::constrain},
                                    {"constraint_check", &CProgram::constraint_check},
                                    {"constraint_free", &CProgram::constraint_free},
                                    {"engine_create", &CProgram::engine_create},
                                    {"engine_free", &CProgram::engine_free},
                                    {"engine_options", &CProgram::engine_options},
                                    {"engine_cancel", &CProgram::engine_cancel},
                                    {"engine_step", &CProgram::engine_step},
                                    {"answer_begin", &CProgram::answer_begin},
                                    {"answer_next", &CProgram::answer_next},
                                    {"answer_poll", &CProgram::answer_poll},
                                    {"answer_cancel", &CProgram::answer_cancel},
                                    {"answer_result", &CProgram::answer_result},
                                    {"answer_free", &CProgram::answer_free},
                                    {"two_threads", &CProgram::two_threads},
                                    {"logits", &CProgram::logits},
                                    {"embed", &CProgram::embed},
                                    {"sequence_create", &CProgram::sequence_create},
                                    {"sequence_fork", &CProgram::sequence_fork},
                                    {"sequence_truncate", &CProgram::sequence_truncate},
                                    {"sequence_reuse", &CProgram::sequence_reuse},
                                    {"sequence_tokens", &CProgram::sequence_tokens},
                                    {"sequence_free", &CProgram::sequence_free},
                                    {"forward", &CProgram::forward},
                                    {"score", &CProgram::score},
                                    {"perplexity", &CProgram::perplexity}};
  return kCalls;
}

std::span<const std::string_view> CProgram::names() {
  static const std::vector<std::string_view> all = [] {
    std::vector<std::string_view> out;
    for (const Call& call : calls()) out.push_back(call.name);
    return out;
  }();
  return all;
}

void CProgram::call(std::string_view bytes) {
  bytes_ = ByteSource(bytes);
  wrong_ = stale_ = stale_inside_ = false;
  (this->*calls()[bytes_.number<std::uint8_t>() % calls().size()].make)();
}

void CProgram::end(bool backwards) {
  constexpr cria_status (*kFree[])(std::uint64_t) = {
      [](std::uint64_t id) { return cria_model_free({id}); },
      [](std::uint64_t id) { return cria_engine_free({id}); },
      [](std::uint64_t id) { return cria_sequence_free({id}); },
      [](std::uint64_t id) { return cria_sampler_free({id}); },
      [](std::uint64_t id) { return cria_constraint_free({id}); },
      [](std::uint64_t id) { return cria_answer_free({id}); }};
  for (std::size_t i = 0; i < kKinds; ++i) {
    const std::size_t kind = backwards ? kKinds - 1 - i : i;
    for (const std::uint64_t id : live_[kind])
      require(kFree[kind](id) == CRIA_OK, "a valid handle is not freed");
    freed_[kind].insert(freed_[kind].end(), live_[kind].begin(), live_[kind].end());
  }
  for (const Ids& ids : freed_)
    if (!ids.empty()) refused_by_all(ids.back());
}

}  // namespace cria::fuzz
