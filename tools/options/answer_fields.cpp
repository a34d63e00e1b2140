#include "tools/options/answer_fields.h"

#include <algorithm>
#include <charconv>
#include <random>

namespace cria::tools {
namespace {

constexpr std::string_view kAnswerFields[] = {"max_tokens",
                                              "max_completion_tokens",
                                              "temperature",
                                              "top_p",
                                              "top_k",
                                              "min_p",
                                              "typical_p",
                                              "repeat_penalty",
                                              "repetition_penalty",
                                              "repeat_last_n",
                                              "presence_penalty",
                                              "frequency_penalty",
                                              "dry_multiplier",
                                              "mirostat",
                                              "seed",
                                              "ignore_eos",
                                              "stop",
                                              "logit_bias",
                                              "logprobs",
                                              "top_logprobs"};

void read_float(const Fields& fields, std::string_view name, double low, double high, float& to) {
  if (const auto value = fields.number(name, low, high)) to = static_cast<float>(*value);
}

/// More than an int32 holds is as good as its largest.
void read_int32(const Fields& fields, std::string_view name, std::int64_t low, std::int32_t& to) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (const auto value = fields.integer(name, low))
    to = static_cast<std::int32_t>(std::min(*value, kMost));
}

/// -1 is no limit, as if it were absent. The first name wins.
void read_max_tokens(const Fields& fields, std::int64_t least, std::int64_t& to) {
  bool known = false;
  for (const std::string_view name : {"max_completion_tokens", "max_tokens"}) {
    const auto value = fields.integer(name, -1);
    if (!value || *value == -1) continue;
    if (*value < least)
      refuse_value(fields.path(name), "a whole number from " + std::to_string(least) + " on, or -1",
                   *value);
    if (!known) to = *value;
    known = true;
  }
}

void read_sampler(const Fields& fields, SamplerOptions& s) {
  read_float(fields, "temperature", 0, 2, s.temperature);
  read_float(fields, "top_p", 0, 1, s.top_p);
  read_float(fields, "min_p", 0, 1, s.min_p);
  read_float(fields, "typical_p", 0, 1, s.typical_p);
  read_int32(fields, "top_k", -1, s.top_k);
  s.top_k = std::max(s.top_k, 0);
  read_float(fields, "presence_penalty", -2, 2, s.presence_penalty);
  read_float(fields, "frequency_penalty", -2, 2, s.frequency_penalty);
  read_float(fields, "repeat_penalty", 0.001, 1000, s.repeat_penalty);
  read_float(fields, "repetition_penalty", 0.001, 1000, s.repeat_penalty);
  read_int32(fields, "repeat_last_n", -1, s.repeat_last_n);
  read_float(fields, "dry_multiplier", 0, 1000, s.dry_multiplier);
  if (const auto mirostat = fields.integer("mirostat", 0, 2))
    s.mirostat = static_cast<std::int32_t>(*mirostat);
}

void read_seed(const Fields& fields, SamplerOptions& sampler) {
  const auto seed = fields.integer("seed", -1);
  if (seed && *seed >= 0) sampler.seed = static_cast<std::uint64_t>(*seed);
  if (seed == -1) sampler.seed = random_request_seed();
}

void read_stop(const Fields& fields, std::vector<std::string>& to) {
  constexpr std::size_t kMost = 16, kLongest = 1024;
  const RequestJson* const stop = fields.find("stop");
  if (stop == nullptr) return;
  const std::string path = fields.path("stop");
  if (!stop->is_string() && !stop->is_array())
    refuse_type(path, "a string or an array of strings", *stop);
  const RequestJson all = stop->is_array() ? *stop : RequestJson::array({*stop});
  if (all.size() > kMost) refuse_value(path, "at most 16 strings", all.size());
  to.clear();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string at = stop->is_array() ? element_path(path, i) : path;
    if (!all[i].is_string()) refuse_type(at, "a string", all[i]);
    if (all[i].get_ref<const std::string&>().size() > kLongest)
      refuse_value(at, "a string of at most 1024 bytes", all[i]);
    if (!all[i].get_ref<const std::string&>().empty()) to.push_back(all[i]);
  }
}

void read_bias(const Fields& fields, std::size_t n_vocab, SamplerOptions& sampler) {
  const RequestJson* const bias = fields.object("logit_bias");
  if (bias == nullptr) return;
  for (const auto& [id, value] : bias->items()) {
    const std::string path = fields.path("logit_bias." + printable(id.substr(0, 40)));
    TokenId token = 0;
    const char* const end = id.data() + id.size();
    const auto [rest, bad] = std::from_chars(id.data(), end, token);
    if (bad != std::errc() || rest != end || token < 0 ||
        static_cast<std::size_t>(token) >= n_vocab)
      refuse_value(path, "the id of a token as the name", id);
    const double number = read_number(value, path, -100, 100);
    sampler.logit_bias.emplace_back(token, number == -100 ? -std::numeric_limits<float>::infinity()
                                                          : static_cast<float>(number));
  }
}

void read_logprobs(const Fields& fields, LogprobsForm form, std::optional<std::size_t>& to) {
  std::int64_t top = -1;  // none
  if (form != LogprobsForm::Completion) top = fields.integer("top_logprobs", 0, 20).value_or(top);
  const RequestJson* const wanted = fields.find("logprobs");
  const std::string path = fields.path("logprobs");
  if (wanted != nullptr && form != LogprobsForm::Chat && wanted->is_number()) {
    to = static_cast<std::size_t>(
        read_integer(*wanted, path, 0, form == LogprobsForm::Either ? 20 : 5));
    return;
  }
  if (wanted != nullptr && form == LogprobsForm::Completion)
    refuse_type(path, "a whole number from 0 to 5", *wanted);
  if (wanted != nullptr && !wanted->is_boolean()) refuse_type(path, "true or false", *wanted);
  const bool yes = wanted != nullptr && wanted->get<bool>();
  if (top >= 0 && !yes && form == LogprobsForm::Chat && !fields.is_null("logprobs"))
    refuse_value(fields.path("top_logprobs"), "none without \"logprobs\": true", top);
  if (yes) to = static_cast<std::size_t>(std::max<std::int64_t>(top, 0));
}

}  // namespace

std::uint64_t random_request_seed() {
  std::random_device device;
  return ((std::uint64_t{device()} << 32U) | device()) >> 11U;  // 53 bits
}

std::span<const std::string_view> answer_field_names() { return kAnswerFields; }

void reject_unsupported_fields(const Fields& fields) {
  for (const char* name : {"functions", "function_call", "audio", "web_search_options", "suffix",
                           "structured_outputs"})
    if (fields.has(name)) refuse_unsupported(name, "this is not supported here");
  const auto constrains = [](std::string_view name) {
    return name.starts_with("guided_") || name == "json_schema" || name == "regex" ||
           name == "ebnf";
  };
  for (const auto& [name, value] : fields.json().items())
    if (constrains(name) && !value.is_null())
      refuse_unsupported(name.substr(0, 64),
                         "constraints are said by \"response_format\" or \"grammar\" here");
  const RequestJson* const modalities = fields.array("modalities");
  if (modalities != nullptr && *modalities != RequestJson::array({"text"}))
    refuse_unsupported("modalities", "only [\"text\"] is supported");
}

void read_answer_fields(const Fields& fields, const AnswerFieldsForm& form,
                        GenerateOptions& options) {
  read_max_tokens(fields, form.least_tokens, options.max_tokens);
  read_sampler(fields, options.sampler);
  read_seed(fields, options.sampler);
  options.ignore_eos = fields.flag("ignore_eos").value_or(options.ignore_eos);
  read_stop(fields, options.stop);
  read_bias(fields, form.n_vocab, options.sampler);
  read_logprobs(fields, form.logprobs, options.logprobs);
}

}  // namespace cria::tools
