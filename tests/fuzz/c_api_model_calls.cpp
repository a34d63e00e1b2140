// Calls with models, tokenizers, samplers and constraints.
#include <limits>
#include <string>

#include "tests/fuzz/c_api_program.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seed_models.h"

namespace cria::fuzz {
namespace {

std::string adapter_file() {
  GgufForm form;
  form.set_text("general.architecture", "llama");
  form.set_text("general.type", "adapter");
  form.set_text("adapter.type", "lora");
  form.set_f32("adapter.lora.alpha", 4);
  form.add_tensor("blk.0.attn_q.weight.lora_a", DType::F32, {32, 2});
  form.add_tensor("blk.0.attn_q.weight.lora_b", DType::F32, {2, 32});
  form.place_tensors();
  for (std::size_t at = 0; at + 4 <= form.data.size(); at += 4)
    form.data.replace(at, 4, bytes_of(static_cast<float>(at % 7) / 64));
  return form.bytes();
}

/// A model, a draft model, one with another vocabulary, an adapter, and files of other kinds.
const char* path_argument(ByteSource& bytes) {
  static const MemoryFile model(SeedModel{}.form().bytes()),
      draft(SeedModel{.dtype = DType::F32}.form().bytes()),
      other(SeedModel{.byte_pairs = true}.form().bytes()), adapter(adapter_file()),
      text("not a model");
  static const std::string paths[] = {model.path(), draft.path(), other.path(), adapter.path(),
                                      text.path(),  "",           "no/such"};
  const auto which = bytes.number<std::uint8_t>();
  return which >= 250 ? nullptr : paths[which % std::size(paths)].c_str();
}

}  // namespace

void CProgram::model_load() {
  if (live_[kKindOf<cria_model>].size() >= kMaxLive) return;
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
  const auto tokens = filled<cria_token>(
      [&, text = checked(sized_text_argument(bytes_))](auto* to, auto room, auto* count) {
        return cria_tokenize(model, text.data, text.n, flags, to, room, count);
      });
  for (const cria_token token : tokens) require(token >= 0 && token < 40, "invalid token");
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
      return cria_apply_template(model, messages.data(), messages.size(), variables, to, room,
                                 count);
    });
  else
    filled<cria_token>([&](auto* to, auto room, auto* count) {
      return cria_template_tokens(model, messages.data(), messages.size(), variables, to, room,
                                  count);
    });
}

void CProgram::sampler_create() {
  if (live_[kKindOf<cria_sampler>].size() >= kMaxLive) return;
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
  check(cria_sampler_set(sampler, name,
                         which < std::size(kValues) ? kValues[which] : bytes_.number<double>()));
}

void CProgram::sampler_set_more() {
  constexpr const char* kSteps[] = {
      "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature",
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
    return check(
        cria_sampler_set_bias(sampler, token, bytes_.flag() ? -INFINITY : bytes_.number<float>()));
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
  if (live_[kKindOf<cria_constraint>].size() >= kMaxLive) return;
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
  require(accepts == 0 || begins != 0, "complete text is not a valid prefix");
}

}  // namespace cria::fuzz
