#include "tests/fuzz/c_api_program.h"

#include <cmath>
#include <limits>
#include <string>
#include <thread>

#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seed_models.h"

namespace cria::fuzz {
namespace {

constexpr std::size_t kMostLive = 12;  // of a kind

template <class H>
constexpr std::size_t kKindOf = 6;
template <>
constexpr std::size_t kKindOf<cria_model> = 0;
template <>
constexpr std::size_t kKindOf<cria_engine> = 1;
template <>
constexpr std::size_t kKindOf<cria_sequence> = 2;
template <>
constexpr std::size_t kKindOf<cria_sampler> = 3;
template <>
constexpr std::size_t kKindOf<cria_constraint> = 4;
template <>
constexpr std::size_t kKindOf<cria_answer> = 5;

std::string adapter_file() {
  GgufForm form;
  form.set_text("general.architecture", "llama");
  form.set_text("general.type", "adapter");
  form.set_text("adapter.type", "lora");
  form.set_f32("adapter.lora.alpha", 4);
  form.add_tensor("blk.0.attn_q.weight.lora_a", DType::F32, {32, 2});
  form.add_tensor("blk.0.attn_q.weight.lora_b", DType::F32, {2, 32});
  form.lay_out();
  for (std::size_t at = 0; at + 4 <= form.data.size(); at += 4)
    form.data.replace(at, 4, bytes_of(static_cast<float>(at % 7) / 64));
  return form.bytes();
}

/// A model, one that may guess for it, one of another vocabulary, an adapter, and no such things.
const char* path_argument(ByteSource& bytes) {
  static const MemoryFile model(SeedModel{}.form().bytes()),
      draft(SeedModel{.dtype = DType::F32}.form().bytes()),
      other(SeedModel{.byte_pairs = true}.form().bytes()), adapter(adapter_file()), text("not a model");
  static const std::string paths[] = {model.path(), draft.path(), other.path(), adapter.path(),
                                      text.path(),  "",           "no/such"};
  const auto which = bytes.number<std::uint8_t>();
  return which >= 250 ? nullptr : paths[which % std::size(paths)].c_str();
}

/// Every function refuses what is a handle no more.
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

const char* variables_argument(ByteSource& bytes) {
  constexpr const char* kVariables[] = {nullptr, "{}", R"({"tools": [], "enable_thinking": false})",
                                        "{",     "3",  R"({"messages": 1})"};
  return kVariables[bytes.between(0, std::size(kVariables) - 1)];
}

}  // namespace

template <class H>
H CProgram::pick(bool inside) {
  const Ids& own = live_[kKindOf<H>];
  const auto how = bytes_.number<std::uint8_t>();
  H handle{};
  if (how < 176)
    handle.id = nth(own, how);
  else if (how < 200)
    handle.id = nth(freed_[kKindOf<H>], how);
  else if (how < 224)
    handle.id = nth(live_[(kKindOf<H> + 1 + how) % kKinds], how);
  else if (how >= 232)
    handle.id = nth(own, how) ^ std::uint64_t{1} << (bytes_.number<std::uint8_t>() % 64);
  const bool alive = std::ranges::find(own, handle.id) != own.end();
  if (inside) {
    stale_inside_ = stale_inside_ || (!alive && handle.id != 0);
  } else {
    stale_ = stale_ || !alive;
    wrong_ = wrong_ || stale_;
  }
  return handle;
}

void CProgram::check(cria_status status) const {
  require(status >= CRIA_ERROR_CANCELLED && status <= CRIA_AGAIN,
          "a status that is none, or an internal error");
  if (status >= CRIA_OK) return require(!wrong_, "a wrong argument is taken");
  const std::string_view message = cria_last_error();
  require(!message.empty() && message.find('\n') == std::string_view::npos,
          "an error's message is not a line");
  require(status != CRIA_ERROR_HANDLE || stale_ || stale_inside_, "a valid handle is refused");
}

template <class H>
void CProgram::made(cria_status status, const H& handle) {
  check(status);
  require((status == CRIA_OK) == (handle.id != 0), "a handle without success, or the other way round");
  if (handle.id == 0) return;
  for (const auto& ids : {live_, freed_})
    for (const Ids& of_kind : ids)
      require(std::ranges::find(of_kind, handle.id) == of_kind.end(), "a handle that was given before");
  live_[kKindOf<H>].push_back(handle.id);
}

template <class H>
void CProgram::release(cria_status (*free)(H)) {
  const H handle = pick<H>();
  const cria_status status = free(handle);
  require(status == (stale_ ? CRIA_ERROR_HANDLE : CRIA_OK), "a stale handle is freed, or a valid one is not");
  if (stale_) return;
  std::erase(live_[kKindOf<H>], handle.id);
  freed_[kKindOf<H>].push_back(handle.id);
}

template <class T, class F>
std::vector<T> CProgram::filled(F&& fill) {
  std::size_t n = 0;
  std::size_t* const count = out(n);
  const auto how = bytes_.number<std::uint8_t>();
  const cria_status asked = fill(static_cast<T*>(nullptr), std::size_t{0}, count);
  check(asked);
  if (asked != CRIA_ERROR_ROOM) return {};
  require(n > 0, "no room for nothing");
  std::vector<T> array(how < 200 ? n : how % n);
  array.shrink_to_fit();
  const cria_status status = fill(array.data(), array.size(), count);
  check(status);
  require(status != CRIA_OK || n <= array.size(), "more is written than there is room for");
  require(status != CRIA_ERROR_ROOM || n > array.size(), "no room where there is some");
  array.resize(status == CRIA_OK ? n : 0);
  return array;
}

void CProgram::model_load() {
  if (live_[kKindOf<cria_model>].size() >= kMostLive) return;
  cria_model model{};
  cria_model* const to = out(model);
  const char* const path = path_argument(bytes_);
  wrong_ = wrong_ || path == nullptr;
  cria_model_options options = CRIA_STRUCT(cria_model_options);
  const auto flags = bytes_.number<std::uint8_t>();
  const char* loras[] = {nullptr, nullptr};
  const float scales[] = {0.5F, flags >= 128 ? std::numeric_limits<float>::quiet_NaN() : -1.0F};
  options.no_mmap = flags & 1;
  options.mlock = flags >> 1 & 1;
  if ((flags & 4) != 0) {
    options.n_loras = 1 + (flags >> 3 & 1);
    options.loras = (flags & 32) != 0 ? nullptr : loras;
    options.lora_scales = (flags & 16) != 0 ? nullptr : scales;
    for (const char*& lora : loras) lora = path_argument(bytes_);
  }
  const auto given = sized(options, true);
  made(cria_model_load(path, given.get(), to), model);
}

void CProgram::model_info() {
  const auto model = pick<cria_model>();
  const auto info = sized(CRIA_STRUCT(cria_model_info));
  check(cria_model_get_info(model, info.get()));
  if (wrong_ || !info.whole()) return;
  const cria_model_info& told = *info.get();
  require(told.n_vocab == 40 && told.n_ctx == 64 && told.n_embd == 32, "another model");
  require(told.name == std::string_view("seed") && told.path[0] == '/', "another name");
}

void CProgram::tokenize() {
  const auto model = pick<cria_model>();
  const std::uint32_t flags = bytes_.between(0, 4);
  wrong_ = wrong_ || flags == 4;
  const auto tokens =
      filled<cria_token>([&, text = checked(sized_text_argument(bytes_))](auto* to, auto room, auto* count) {
        return cria_tokenize(model, text.data, text.n, flags, to, room, count);
      });
  for (const cria_token token : tokens) require(token >= 0 && token < 40, "a token that is none");
}

void CProgram::detokenize() {
  const auto model = pick<cria_model>();
  const std::uint32_t flags = bytes_.between(0, 1);
  const auto tokens = checked(token_argument(bytes_));
  filled<char>([&](auto* to, auto room, auto* count) {
    return cria_detokenize(model, tokens.data, tokens.n, flags, to, room, count);
  });
}

std::vector<cria_message> CProgram::conversation() {
  constexpr const char* kRoles[] = {"user", "system", "assistant", "tool", "", "\xFF", nullptr};
  constexpr const char* kObjects[] = {R"({"role": "user", "content": "a"})",
                                      R"({"role": "assistant", "tool_calls": [{}]})", "{", "[]"};
  std::vector<cria_message> out(1 + bytes_.between(0, 2));
  for (cria_message& message : out) {
    const auto how = bytes_.number<std::uint8_t>();
    message = {kRoles[how % std::size(kRoles)], text_argument(bytes_),
               how < 192 ? nullptr : kObjects[how % std::size(kObjects)]};
  }
  out.shrink_to_fit();
  return out;
}

void CProgram::apply_template() {
  const auto model = pick<cria_model>();
  const bool text = !bytes_.flag();
  const char* const variables = variables_argument(bytes_);
  const auto messages = conversation();
  if (text)
    filled<char>([&](auto* to, auto room, auto* count) {
      return cria_apply_template(model, messages.data(), messages.size(), variables, to, room, count);
    });
  else
    filled<cria_token>([&](auto* to, auto room, auto* count) {
      return cria_template_tokens(model, messages.data(), messages.size(), variables, to, room, count);
    });
}

void CProgram::sampler_create() {
  if (live_[kKindOf<cria_sampler>].size() >= kMostLive) return;
  const auto model = pick<cria_model>();
  cria_sampler sampler{};
  const cria_status status = cria_sampler_create(model, out(sampler));
  made(status, sampler);
}

void CProgram::sampler_set() {
  using Double = std::numeric_limits<double>;
  constexpr const char* kNames[] = {"temperature",
                                    "top_k",
                                    "top_p",
                                    "min_p",
                                    "typical_p",
                                    "top_n_sigma",
                                    "xtc_probability",
                                    "xtc_threshold",
                                    "repeat_penalty",
                                    "repeat_last_n",
                                    "mirostat",
                                    "presence_penalty",
                                    "frequency_penalty",
                                    "dry_multiplier",
                                    "dry_base",
                                    "dry_last_n",
                                    "dry_allowed_length",
                                    "mirostat_tau",
                                    "mirostat_eta",
                                    "dynatemp_range",
                                    "dynatemp_exponent",
                                    "none",
                                    "",
                                    "\xFF",
                                    nullptr};
  constexpr double kValues[] = {0,
                                1,
                                2,
                                0.5,
                                -1,
                                40,
                                1e-30,
                                1e30,
                                1e300,
                                -2,
                                2147483648.0,
                                Double::quiet_NaN(),
                                Double::infinity(),
                                -Double::infinity()};
  const auto sampler = pick<cria_sampler>();
  const char* const name = kNames[bytes_.between(0, std::size(kNames) - 1)];
  wrong_ = wrong_ || name == nullptr;
  const std::uint32_t which = bytes_.between(0, std::size(kValues));
  check(
      cria_sampler_set(sampler, name, which < std::size(kValues) ? kValues[which] : bytes_.number<double>()));
}

void CProgram::sampler_set_more() {
  constexpr const char* kSteps[] = {"penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature",
                                    "temperature",
                                    "",
                                    "top_k;top_k",
                                    "none",
                                    ";;",
                                    nullptr};
  const auto sampler = pick<cria_sampler>();
  const auto what = bytes_.between(0, 3);
  if (what == 0) return check(cria_sampler_set_seed(sampler, bytes_.number<std::uint64_t>()));
  if (what == 1) {
    const cria_token token = checked(token_argument(bytes_)).items.front();
    return check(cria_sampler_set_bias(sampler, token, bytes_.flag() ? -INFINITY : bytes_.number<float>()));
  }
  if (what == 2)
    return check(cria_sampler_set_steps(sampler, kSteps[bytes_.between(0, std::size(kSteps) - 1)]));
  const char* const breakers[] = {text_argument(bytes_), text_argument(bytes_)};
  const std::size_t n = bytes_.between(0, 2);
  for (std::size_t i = 0; i < n; ++i) wrong_ = wrong_ || breakers[i] == nullptr;
  check(cria_sampler_set_dry_breakers(sampler, n == 0 ? nullptr : breakers, n));
}

void CProgram::constrain() {
  constexpr const char* kTexts[][6] = {
      {R"({"type": "integer"})", R"({"enum": ["a", "ab"]})",
       R"({"type": "object", "properties": {"a": {"type": "string"}}})", "{", "", nullptr},
      {R"(root ::= "a" | "b" root)", R"(root ::= [a-c]*)", "root ::= root", "a ::= b", "", nullptr},
      {"(ab)*a", "[^a]{3,9}", "a|b|w12", "(", "", nullptr}};
  constexpr cria_status (*kMakers[])(const char*, cria_constraint*) = {
      cria_constraint_json_schema, cria_constraint_grammar, cria_constraint_regex};
  if (live_[kKindOf<cria_constraint>].size() >= kMostLive) return;
  cria_constraint constraint{};
  cria_constraint* const to = out(constraint);
  const std::uint32_t form = bytes_.between(0, 2);
  const char* const text = kTexts[form][bytes_.between(0, 5)];
  wrong_ = wrong_ || text == nullptr;
  made(kMakers[form](text, to), constraint);
}

void CProgram::constraint_check() {
  const auto constraint = pick<cria_constraint>();
  std::int32_t accepts = 0, begins = 1;
  const auto how = bytes_.number<std::uint8_t>();
  const auto text = checked(sized_text_argument(bytes_));
  check(cria_constraint_check(constraint, text.data, text.n, how % 3 == 1 ? nullptr : &accepts,
                              how % 3 == 2 ? nullptr : &begins));
  require(accepts == 0 || begins != 0, "a text that is whole does not begin one");
}

void CProgram::engine_create() {
  if (live_[kKindOf<cria_engine>].size() >= kMostLive) return;
  constexpr std::uint32_t kContexts[] = {0, 64, 16, 1, 33, 1U << 25},
                          kSizes[] = {0, 1, 3, 16, 4096, UINT32_MAX};
  constexpr const char* kKvTypes[] = {nullptr, "f16", "f32", "q8_0", "q4_0", ""};
  const auto model = pick<cria_model>();
  cria_engine engine{};
  cria_engine* const to = out(engine);
  cria_engine_options options = CRIA_STRUCT(cria_engine_options);
  options.n_ctx = kContexts[bytes_.between(0, 5)];
  options.n_batch = kSizes[bytes_.between(0, 5)];
  options.sequences = kSizes[bytes_.between(0, 3)];
  options.threads =
      bytes_.number<std::uint8_t>() < 240 ? 1 : 2;  // two wait for each other long on a busy machine
  const auto more = bytes_.number<std::uint8_t>();
  if (more >= 240) options.sequences = options.threads_prefill = 1025;
  options.forget = more & 1;
  options.positions = (more & 2) != 0 ? 128 : (more & 4) != 0 ? std::uint64_t{1} << more % 64U : 0;
  if (options.positions > (1U << 16) && options.positions < (1U << 30))
    options.positions = 0;  // much memory, and nothing new
  options.kv_type = kKvTypes[bytes_.between(0, 5)];
  if (bytes_.flag()) options.draft = pick<cria_model>(true);
  const auto given = sized(options, true);
  wrong_ = wrong_ || (stale_inside_ && given.whole());
  made(cria_engine_create(model, given.get(), to), engine);
}

void CProgram::engine_options() {
  const auto engine = pick<cria_engine>();
  const auto options = sized(CRIA_STRUCT(cria_engine_options));
  check(cria_engine_get_options(engine, options.get()));
  if (wrong_ || !options.whole()) return;
  require(options.get()->n_ctx != 0 && options.get()->sequences != 0 && options.get()->kv_type[0] != '\0',
          "a default is not filled in");
}

void CProgram::engine_step() {
  const auto engine = pick<cria_engine>();
  std::int32_t busy = 2;
  check(cria_engine_step(engine, bytes_.flag() ? nullptr : &busy));
}

void CProgram::answer_begin() {
  if (live_[kKindOf<cria_answer>].size() >= kMostLive) return;
  constexpr std::int64_t kMost[] = {6, 0, 1, 30, -1, INT64_MAX};
  constexpr std::uint32_t kTop[] = {0, 2, 40, 41, UINT32_MAX};
  const auto engine = pick<cria_engine>();
  cria_answer answer{};
  cria_answer* const to = out(answer);
  cria_request request = CRIA_STRUCT(cria_request);
  const auto given = sized(request);
  request.sampler = pick<cria_sampler>(true);
  request.constraint = bytes_.flag() ? pick<cria_constraint>(true) : cria_constraint{};
  request.max_tokens = kMost[bytes_.between(0, 5)];
  const auto flags = bytes_.number<std::uint8_t>();
  const char* const stop[] = {text_argument(bytes_), "w9"};
  request.ignore_eos = flags & 1;
  request.speculation = (flags >> 1 & 1) | (flags >> 3 & 2);
  wrong_ = wrong_ || (request.speculation == 3 && given.whole());
  request.logprobs = flags >> 2 & 1;
  request.top_logprobs = kTop[flags >> 5 & 3];
  request.scope = flags >> 3 & 1;
  request.stop = stop;
  request.n_stop = flags >= 128 ? 2 : 0;
  const auto kind = bytes_.number<std::uint8_t>();
  const auto messages = kind % 4 == 0 || kind >= 240 ? conversation() : std::vector<cria_message>{};
  const auto text = kind % 4 == 1 ? sized_text_argument(bytes_) : ArrayArgument<char>{};
  const auto tokens = kind % 4 == 2 || kind >= 240 ? token_argument(bytes_) : ArrayArgument<cria_token>{};
  if (!messages.empty()) request.messages = messages.data();
  request.n_messages = messages.size();
  request.variables = kind >= 128 ? variables_argument(bytes_) : nullptr;
  request.text = text.data;
  request.text_size = text.n;
  request.tokens = tokens.data;
  request.n_tokens = tokens.n;
  if (given.right()) {  // as much of it as that struct has
    const std::size_t size = given.get()->size;
    std::memcpy(static_cast<void*>(given.get()), &request, std::min(size, sizeof request));
    given.get()->size = size;
  }
  wrong_ = wrong_ || (stale_inside_ && given.whole());
  made(cria_answer_begin(engine, given.get(), to), answer);
}

void CProgram::read_piece(cria_status (*read)(cria_answer, cria_piece*)) {
  const auto answer = pick<cria_answer>();
  const auto piece = sized(CRIA_STRUCT(cria_piece));
  const cria_status status = read(answer, piece.get());
  check(status);
  require(status != CRIA_AGAIN || read == cria_answer_poll, "a piece that was waited for is not there");
  if (status != CRIA_OK || !piece.whole()) return;
  const cria_piece& told = *piece.get();
  require(told.text_size > 0 && told.text[told.text_size] == '\0',
          "a piece without text, or without its end");
}

void CProgram::answer_result() {
  const auto answer = pick<cria_answer>();
  const auto result = sized(CRIA_STRUCT(cria_result));
  const cria_status status = cria_answer_result(answer, result.get());
  check(status);
  if (status != CRIA_OK || !result.whole()) return;
  const cria_result& told = *result.get();
  require(told.text[told.text_size] == '\0' && told.thinking[told.thinking_size] == '\0',
          "a text without its end");
  require(told.stop_reason >= CRIA_STOP_END && told.stop_reason <= CRIA_STOP_INTERRUPTED, "no reason");
  for (std::size_t i = 0; i < told.n_tokens; ++i)
    require(told.tokens[i] >= 0 && told.tokens[i] < 40, "a token that is none");
  for (std::size_t i = 0; i < told.n_logprobs; ++i)
    require(told.logprobs[i].logprob <= 0, "more than certain");
  for (std::size_t i = 0; i < told.n_logprobs * told.n_top; ++i)
    require(told.top_logprobs[i].token < 40, "a token that is none");
  told_ += told.n_tokens > 0 ? 1 : 0;
}

/// One waits for an answer; another, meanwhile, steps, cancels, or frees it or its engine.
void CProgram::two_threads() {
  const auto answer = pick<cria_answer>();
  if (stale_) return;
  cria_status waited = CRIA_OK;
  std::thread waits([&] {
    cria_result result = CRIA_STRUCT(cria_result);
    waited = cria_answer_result(answer, &result);
  });
  const std::uint32_t what = bytes_.between(0, 5);
  const std::uint64_t newest = nth(live_[kKindOf<cria_engine>], 0);
  if (what == 0) cria_engine_step({newest}, nullptr);
  if (what == 1) cria_engine_cancel({newest});
  if (what == 2) cria_answer_cancel(answer);
  if (what == 3) release(cria_answer_free);
  if (what == 4) release(cria_engine_free);
  if (what == 5) read_piece(cria_answer_next);
  waits.join();
  require(waited != CRIA_ERROR_INTERNAL && waited != CRIA_ERROR_ARGUMENT,
          "an answer that was waited for failed");
}

void CProgram::logits() {
  const auto engine = pick<cria_engine>();
  const auto tokens = checked(token_argument(bytes_));
  const std::size_t first = bytes_.between(0, 3) == 3 ? SIZE_MAX : bytes_.between(0, 12);
  const auto logits = filled<float>([&](auto* to, auto room, auto* count) {
    return cria_logits(engine, tokens.data, tokens.n, first, to, room, count);
  });
  require(std::ranges::all_of(logits, [](float x) { return std::isfinite(x); }), "a logit that is no number");
}

void CProgram::embed() {
  const auto engine = pick<cria_engine>();
  const auto tokens = checked(token_argument(bytes_));
  const auto pooling = static_cast<std::int32_t>(bytes_.between(0, 2));
  const auto embedding = filled<float>([&](auto* to, auto room, auto* count) {
    return cria_embed(engine, tokens.data, tokens.n, pooling, to, room, count);
  });
  require(embedding.empty() || (embedding.size() == 32 && pooling != 2), "an embedding of another size");
}

void CProgram::score() {
  const auto engine = pick<cria_engine>();
  const auto one = checked(token_argument(bytes_)), other = checked(token_argument(bytes_));
  const cria_scored texts[] = {{one.data, one.n, 1U + bytes_.between(0, 3)},
                               {other.data, other.n, bytes_.between(0, 3)}};
  const std::size_t n = bytes_.between(0, 2);
  if (n < 2) wrong_ = stale_ || (n == 1 && !one.right);
  const auto scores = filled<cria_score>([&](auto* to, auto room, auto* count) {
    return cria_score_tokens(engine, n == 0 ? nullptr : texts, n, 0, to, room, count);
  });
  for (const cria_score& score : scores)
    require(score.logprob <= 0 && score.likeliest >= 0 && score.likeliest < 40, "a score that is none");
}

void CProgram::perplexity() {
  constexpr std::uint32_t kSizes[] = {0, 8, 2, 1, 64, UINT32_MAX};
  const auto engine = pick<cria_engine>();
  cria_perplexity_options options = CRIA_STRUCT(cria_perplexity_options);
  options.window = kSizes[bytes_.between(0, 5)];
  options.stride = kSizes[bytes_.between(0, 5)];
  options.max_windows = bytes_.between(0, 3);
  const auto given = sized(options, true);
  const auto result = sized(CRIA_STRUCT(cria_perplexity_result));
  const auto text = checked(sized_text_argument(bytes_));
  const cria_status status = cria_perplexity(engine, text.data, text.n, given.get(), result.get());
  check(status);
  if (status == CRIA_OK && result.whole())
    require(result.get()->perplexity >= 1 && result.get()->tokens > 0, "a perplexity that is none");
}

void CProgram::sequence_create() {
  if (live_[kKindOf<cria_sequence>].size() >= kMostLive) return;
  const auto engine = pick<cria_engine>();
  cria_sequence sequence{};
  cria_sequence* const to = out(sequence);
  made(cria_sequence_create(engine, bytes_.between(0, 1), to), sequence);
}

void CProgram::sequence_fork() {
  if (live_[kKindOf<cria_sequence>].size() >= kMostLive) return;
  const auto sequence = pick<cria_sequence>();
  cria_sequence fork{};
  const cria_status status = cria_sequence_fork(sequence, out(fork));
  made(status, fork);
}

void CProgram::sequence_truncate() {
  const auto sequence = pick<cria_sequence>();
  const std::size_t n = bytes_.flag() ? SIZE_MAX - bytes_.between(0, 64) : bytes_.between(0, 64);
  std::size_t left = 0;
  check(cria_sequence_truncate(sequence, n, bytes_.flag() ? nullptr : &left));
  require(left <= n, "more is left than was to be");
}

void CProgram::sequence_reuse() {
  const auto sequence = pick<cria_sequence>();
  const auto tokens = checked(token_argument(bytes_));
  std::size_t left = 0;
  check(cria_sequence_reuse(sequence, tokens.data, tokens.n, bytes_.flag() ? nullptr : &left));
  require(left <= tokens.n, "more is known than was asked for");
}

void CProgram::sequence_tokens() {
  const auto sequence = pick<cria_sequence>();
  filled<cria_token>(
      [&](auto* to, auto room, auto* count) { return cria_sequence_tokens(sequence, to, room, count); });
}

void CProgram::forward() {
  std::vector<ArrayArgument<cria_token>> tokens;
  std::vector<cria_slice> slices(1 + bytes_.between(0, 2));
  for (cria_slice& slice : slices) {
    slice.sequence = pick<cria_sequence>();
    slice.first_wanted = bytes_.between(0, 4);
    tokens.push_back(checked(token_argument(bytes_)));
    slice.tokens = tokens.back().data;  // stays where it is when its owner is moved
    slice.n_tokens = tokens.back().n;
  }
  slices.shrink_to_fit();
  const auto logits = filled<float>([&](auto* to, auto room, auto* count) {
    return cria_forward(slices.data(), slices.size(), to, room, count);
  });
  require(std::ranges::all_of(logits, [](float x) { return std::isfinite(x); }), "a logit that is no number");
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
