// The C interface: answers.
#include "engine/c/objects.h"

namespace cria::c_api {
namespace {

Speculate speculation(std::int32_t mode) {
  constexpr Speculate kModes[] = {Speculate::Auto, Speculate::Off, Speculate::Lookup,
                                  Speculate::Layers};
  if (mode < CRIA_SPECULATE_AUTO || mode > CRIA_SPECULATE_LAYERS)
    throw Failure(CRIA_ERROR_ARGUMENT, "unknown mode of speculation");
  return kModes[mode];
}

GenerateOptions generate_options(const ModelObject& model, const cria_request& given) {
  GenerateOptions options;
  options.sampler = given.sampler.id == 0 ? default_sampler(*model.model)
                                          : object<SamplerObject>(given.sampler.id)->options();
  check(options.sampler, model.model->token_count());
  if (given.constraint.id != 0)
    options.constraint = object<ConstraintObject>(given.constraint.id)->constraint;
  if (given.max_tokens < 0) throw Failure(CRIA_ERROR_ARGUMENT, "max_tokens is negative");
  if (given.max_tokens != 0) options.max_tokens = given.max_tokens;
  for (const char* const stop : array(given.stop, given.n_stop, "stop"))
    options.stop.emplace_back(&required(stop, "a stop string"));
  options.ignore_eos = given.ignore_eos != 0;
  options.speculate = speculation(given.speculation);
  if (given.logprobs != 0) options.logprobs = given.top_logprobs;
  return options;
}

/// Makes the prompt that `cria run` makes.
AnswerRequest answer_request(EngineObject& engine, const cria_request& given) {
  ModelObject& model = *engine.model;
  const GenerateOptions options = generate_options(model, given);
  if ((given.messages != nullptr) + (given.text != nullptr) + (given.tokens != nullptr) != 1)
    throw Failure(CRIA_ERROR_ARGUMENT, "expected messages or text or tokens, one of them");
  if (given.messages != nullptr && given.n_messages == 0)
    throw Failure(CRIA_ERROR_ARGUMENT, "a conversation without messages");
  AnswerRequest request;
  if (given.messages != nullptr) {
    ChatOptions how;
    how.chat_template = model.chat_template();
    if (given.variables != nullptr) how.variables = given.variables;
    request = chat_request(*model.model, engine.engine.options().n_ctx,
                           conversation(given.messages, given.n_messages), options, how);
  } else {
    request.options = options;
    if (given.tokens != nullptr) {
      const auto tokens = array(given.tokens, given.n_tokens, "tokens");
      request.prompt.assign(tokens.begin(), tokens.end());
    } else {
      request.prompt =
          model.model->tokenizer().encode(text(given.text, given.text_size, "text"), true, true);
    }
  }
  request.scope = given.scope;
  return request;
}

cria_status give_piece(AnswerObject& answer, cria_piece* piece) {
  const bool ended = answer.writing->ended();  // before take(): others may add the last piece
  auto next = answer.writing->take();
  if (!next) {
    if (!ended) return CRIA_AGAIN;
    (void)answer.writing->result();  // throws the answer's error
    return CRIA_END;
  }
  answer.piece = std::move(*next);
  cria_piece out{};
  out.part = answer.piece.part == AnswerPart::Thinking ? CRIA_PART_THINKING : CRIA_PART_ANSWER;
  out.text = answer.piece.text.c_str();
  out.text_size = answer.piece.text.size();
  give(piece, out, "piece");
  return CRIA_OK;
}

/// Returns the next piece, after before() waited for it.
template <class Before>
cria_status give_next(cria_answer answer, cria_piece* piece, Before before) {
  return call([&] {
    const auto of = object<AnswerObject>(answer.id);
    checked_size(required(piece, "piece"));
    before(*of);
    const std::scoped_lock lock(of->mutex);
    return give_piece(*of, piece);
  });
}

static_assert(int{CRIA_STOP_TEXT} == int(StopReason::StopString) &&
              int{CRIA_STOP_INTERRUPTED} == int(StopReason::Interrupted));

/// Fills the tables that the result points to, once; changes nothing if memory is short.
void add_tables(AnswerObject& answer, const GenerateResult& result) {
  if (answer.calls.size() != result.tool_calls.size()) {
    std::vector<cria_tool_call> calls;
    for (const ToolCall& call : result.tool_calls)
      calls.push_back({call.id.c_str(), call.name.c_str(), call.arguments.c_str()});
    answer.calls = std::move(calls);
  }
  if (answer.logprobs.size() == result.logprobs.size()) return;
  std::vector<cria_token_logprob> logprobs, top_logprobs;
  for (const TokenLogprobs& token : result.logprobs) {
    logprobs.push_back({token.id, token.logprob});
    for (const auto& [id, logprob] : token.top) top_logprobs.push_back({id, logprob});
  }
  answer.logprobs = std::move(logprobs);
  answer.top_logprobs = std::move(top_logprobs);
}

cria_result result_of(const AnswerObject& answer, const GenerateResult& result) {
  cria_result out{};
  out.stop_reason = static_cast<std::int32_t>(result.reason);
  out.text = result.text.c_str();
  out.text_size = result.text.size();
  out.thinking = result.reasoning.c_str();
  out.thinking_size = result.reasoning.size();
  out.stop = result.stop.c_str();
  out.tokens = result.tokens.data();
  out.n_tokens = result.tokens.size();
  out.tool_calls = answer.calls.data();
  out.n_tool_calls = answer.calls.size();
  out.logprobs = answer.logprobs.data();
  out.top_logprobs = answer.top_logprobs.data();
  out.n_logprobs = answer.logprobs.size();
  out.n_top = answer.logprobs.empty() ? 0 : answer.top_logprobs.size() / answer.logprobs.size();
  out.prompt_tokens = result.prompt_tokens;
  out.cached_tokens = result.cached_tokens;
  out.prompt_seconds = result.prompt_seconds;
  out.decode_seconds = result.decode_seconds;
  out.drafted_tokens = result.drafted;
  out.kept_tokens = result.accepted;
  return out;
}

}  // namespace
}  // namespace cria::c_api

using namespace cria::c_api;

cria_status cria_answer_begin(cria_engine engine, const cria_request* request,
                              cria_answer* answer) {
  return call([&] {
    required(answer, "answer").id = 0;
    const auto of = object<EngineObject>(engine.id);
    const cria_request given = taken(&required(request, "request"));
    cria::AnswerRequest wanted = answer_request(*of, given);
    auto made = std::make_shared<AnswerObject>(of);
    of->begin(std::move(wanted), made->writing);
    answer->id = handle(std::move(made));
  });
}

cria_status cria_answer_free(cria_answer answer) {
  return call([&] { removed<AnswerObject>(answer.id); });
}

cria_status cria_answer_next(cria_answer answer, cria_piece* piece) {
  return give_next(answer, piece, [](AnswerObject& of) { of.engine->write(*of.writing); });
}

cria_status cria_answer_poll(cria_answer answer, cria_piece* piece) {
  return give_next(answer, piece, [](AnswerObject&) {});
}

cria_status cria_answer_cancel(cria_answer answer) {
  return call([&] {
    const auto of = object<AnswerObject>(answer.id);
    of->engine->cancel(*of->writing, true);
  });
}

cria_status cria_answer_result(cria_answer answer, cria_result* result) {
  return call([&] {
    const auto of = object<AnswerObject>(answer.id);
    checked_size(required(result, "result"));
    of->engine->finish(*of->writing);
    const std::scoped_lock lock(of->mutex);
    const cria::GenerateResult& end = of->writing->result();
    add_tables(*of, end);
    give(result, result_of(*of, end), "result");
  });
}
