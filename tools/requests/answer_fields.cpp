#include "tools/requests/answer_fields.h"

#include <algorithm>
#include <charconv>
#include <random>

#include "model/file/json.h"
#include "model/plural.h"

namespace cria::tools {
namespace {

/// -1 means no limit, as if the field were absent. The first name wins. llama.cpp's may be 0.
void read_max_tokens(const Fields& fields, std::int64_t min, std::int64_t& to) {
  bool known = false;
  for (const std::string_view name : kMaxTokensNames) {
    const auto value = fields.integer(name, -1);
    if (!value || *value == -1) continue;
    if (*value < (name == "n_predict" ? 0 : min))
      refuse_value(fields.path(name), "a whole number from " + std::to_string(min) + " on, or -1",
                   *value);
    if (!known) to = *value;
    known = true;
  }
}

/// Reads a string or an array of strings, without empty ones; nullopt if the field is absent.
std::optional<std::vector<std::string>> read_strings(const Fields& fields, std::string_view name) {
  constexpr std::size_t kMaxStrings = 16, kMaxBytes = 1024;
  const Json* const value = fields.find(name);
  if (value == nullptr) return std::nullopt;
  const std::string path = fields.path(name);
  if (!value->is_string() && !value->is_array())
    refuse_type(path, "a string or an array of strings", *value);
  const Json all = value->is_array() ? *value : Json::array({*value});
  if (all.size() > kMaxStrings) refuse_value(path, "at most 16 strings", all.size());
  std::vector<std::string> strings;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string at = value->is_array() ? element_path(path, i) : path;
    if (!all[i].is_string()) refuse_type(at, "a string", all[i]);
    if (all[i].get_ref<const std::string&>().size() > kMaxBytes)
      refuse_value(at, "a string of at most 1024 bytes", all[i]);
    if (!all[i].get_ref<const std::string&>().empty()) strings.push_back(all[i]);
  }
  return strings;
}

/// Reads the bias of a token; false excludes it, as -100 does.
float read_bias(const Json& value, const std::string& path) {
  const double number = value == false ? -100 : read_number(value, path, -100, 100);
  return number == -100 ? -std::numeric_limits<float>::infinity() : static_cast<float>(number);
}

/// OpenAI writes {"5": -100}, and llama.cpp also [[5, -100]].
void read_biases(const Fields& fields, std::string_view name, std::size_t n_vocab,
                 std::vector<std::pair<TokenId, float>>& to) {
  const Json* const bias = fields.find(name);
  if (bias == nullptr) return;
  if (!bias->is_structured())
    refuse_type(fields.path(name), "an object of ids and numbers, or an array of such pairs",
                *bias);
  for (std::size_t i = 0; bias->is_array() && i < bias->size(); ++i) {
    const Json& pair = (*bias)[i];
    const std::string path = element_path(fields.path(name), i);
    if (!pair.is_array() || pair.size() != 2)
      refuse_type(path, "an array of a token id and a number", pair);
    const auto most = static_cast<std::int64_t>(n_vocab) - 1;
    const std::int64_t id = read_integer(pair[0], element_path(path, 0), 0, most);
    to.emplace_back(static_cast<TokenId>(id), read_bias(pair[1], element_path(path, 1)));
  }
  if (bias->is_array()) return;
  for (const auto& [id, value] : bias->items()) {
    const std::string path = fields.path(std::string(name) + "." + printable(id.substr(0, 40)));
    TokenId token = 0;
    const char* const end = id.data() + id.size();
    const auto [rest, bad] = std::from_chars(id.data(), end, token);
    if (bad != std::errc() || rest != end || token < 0 ||
        static_cast<std::size_t>(token) >= n_vocab)
      refuse_value(path, "the id of a token as the name", id);
    to.emplace_back(token, read_bias(value, path));
  }
}

/// Reads the field of one row of kSamplerOptions, by the type of its member.
struct SamplerField {
  const Fields& fields;
  std::string_view name;
  const SamplerOption& option;
  std::size_t n_vocab;
  SamplerOptions& values;

  void operator()(float SamplerOptions::*member) const {
    const Json* const given = fields.find(name);
    if (option.minus_one && given != nullptr && *given == -1) {
      values.*member = static_cast<float>(option.off);
      return;
    }
    const double low = std::max(option.low, -option.openai);
    const auto value = fields.number(name, low, std::min(option.high, option.openai));
    if (value) values.*member = static_cast<float>(*value);
  }
  /// A count beyond the limit is as good as the limit.
  void operator()(std::int32_t SamplerOptions::*member) const {
    constexpr auto kAny = std::numeric_limits<std::int64_t>::max();
    const auto high = static_cast<std::int64_t>(option.high);
    const auto value = fields.integer(name, static_cast<std::int64_t>(option.low),
                                      option.high == kMaxSamplerCount ? kAny : high);
    if (value) values.*member = static_cast<std::int32_t>(std::min(*value, high));
  }
  void operator()(std::optional<std::uint64_t> SamplerOptions::*member) const {
    const auto seed = fields.integer(name, -1);
    if (seed)
      values.*member = *seed < 0 ? random_request_seed() : static_cast<std::uint64_t>(*seed);
  }
  void operator()(std::vector<std::string> SamplerOptions::*member) const {
    (void)fields.array(name);
    if (auto strings = read_strings(fields, name)) values.*member = std::move(*strings);
  }
  void operator()(std::vector<SamplerStep> SamplerOptions::*member) const {
    const auto names = read_strings(fields, name);
    if (!names) return;
    std::string text;
    for (const std::string& one : *names) text += (text.empty() ? "" : ";") + one;
    try {
      values.*member = parse_sampler_steps(text);
    } catch (const Error& error) {
      throw RequestError("invalid_value", fields.path(name),
                         "\"" + fields.path(name) + "\": " + error.what());
    }
  }
  void operator()(std::vector<std::pair<TokenId, float>> SamplerOptions::*member) const {
    read_biases(fields, name, n_vocab, values.*member);
  }
};

void read_sampler(const Fields& fields, std::size_t n_vocab, SamplerOptions& values) {
  for (const SamplerOption& option : kSamplerOptions)
    for (const std::string_view name : {option.name, option.alias})
      if (!name.empty())
        std::visit(SamplerField{fields, name, option, n_vocab, values}, option.member);
}

/// Returns the value of one row of kSamplerOptions, by the type of its member.
struct SamplerValue {
  const SamplerOptions& values;

  Json operator()(float SamplerOptions::*member) const {
    return Json::parse(number_text(values.*member));  // 0.3, not 0.30000001192092896
  }
  Json operator()(std::int32_t SamplerOptions::*member) const { return values.*member; }
  Json operator()(std::optional<std::uint64_t> SamplerOptions::*member) const {
    return values.*member ? Json(*(values.*member)) : Json(-1);
  }
  Json operator()(std::vector<std::string> SamplerOptions::*member) const { return values.*member; }
  Json operator()(std::vector<SamplerStep> SamplerOptions::*member) const {
    Json names = Json::array();
    for (const SamplerStep step : values.*member) names.push_back(sampler_steps_text({step}));
    return names;
  }
  Json operator()(std::vector<std::pair<TokenId, float>> SamplerOptions::*member) const {
    Json bias = Json::object();
    for (const auto& [id, value] : values.*member)
      bias[std::to_string(id)] = std::max(value, -100.0F);
    return bias;
  }
};

void read_logprobs(const Fields& fields, LogprobsForm form, std::optional<std::size_t>& to) {
  std::int64_t top = -1;  // none
  if (form != LogprobsForm::Completion) top = fields.integer("top_logprobs", 0, 20).value_or(top);
  const Json* const wanted = fields.find("logprobs");
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

/// These have one value here.
void check_form(const Fields& fields) {
  if (const auto format = fields.text("reasoning_format");
      format && *format != "auto" && *format != "deepseek")
    refuse_unsupported(fields.path("reasoning_format"), R"(expected "auto" or "deepseek")");
  const Json* const modalities = fields.array("modalities");
  if (modalities != nullptr && *modalities != Json::array({"text"}))
    refuse_unsupported("modalities", "only [\"text\"] is supported");
}

constexpr std::size_t kMaxSchemaBytes = 256 << 10;  // as JSON

void set_schema(const Json& schema, std::string path, ConstraintFields& out) {
  out.kind = ConstraintFields::Kind::JsonSchema;
  out.text = exact_json_text(schema);
  out.path = std::move(path);
  const std::size_t size =
      exact_json_text(schema, 0).size();  // with spaces, as most clients write it
  if (size > kMaxSchemaBytes)
    throw RequestError(
        "invalid_schema", out.path,
        "\"" + out.path + "\": expected at most 256 KiB, got " + counted(size, "byte"));
}

/// llama.cpp also takes the schema without OpenAI's "json_schema" around it.
void read_json_schema(const Fields& format, ConstraintFields& out) {
  if (const Json* const schema = format.find("schema"); schema && !format.has("json_schema"))
    return set_schema(*schema, format.path("schema"), out);
  const Fields fields(format.require("json_schema", "an object"), format.path("json_schema"));
  if (const std::string name = fields.require_text("name"); !is_name(name))
    refuse_value(fields.path("name"), kNameForm, name);
  (void)fields.flag("strict");
  (void)fields.text("description");
  set_schema(fields.require("schema", "a JSON schema"), fields.path("schema"), out);
}

void read_format(const Fields& body, ConstraintFields& out) {
  const Json* const json = body.find("response_format");
  if (json == nullptr) return;
  const bool short_form = *json == "text" || *json == "json_object";
  const Json object = short_form ? Json::object({{"type", *json}}) : *json;
  const Fields format(object, "response_format");
  const std::string type = format.require_text("type");
  if (type == "json_schema") {
    read_json_schema(format, out);
  } else if (type == "json_object") {
    out = {ConstraintFields::Kind::JsonObject, "", "response_format"};
    if (const Json* const schema = format.find("schema"))
      set_schema(*schema, format.path("schema"), out);
  } else if (type != "text") {
    refuse_value(format.path("type"),
                 R"("text", "json_object" or "json_schema" (a grammar goes into "grammar"))", type);
  }
}

}  // namespace

std::uint64_t random_request_seed() {
  std::random_device device;
  return ((std::uint64_t{device()} << 32U) | device()) >> 11U;  // 53 bits
}

Json sampler_fields(const SamplerOptions& options) {
  Json out = Json::object();
  for (const SamplerOption& option : kSamplerOptions)
    out[std::string(option.name)] = std::visit(SamplerValue{options}, option.member);
  return out;
}

void read_answer_fields(const Fields& fields, const AnswerFieldsForm& form,
                        GenerateOptions& options) {
  check_form(fields);
  read_max_tokens(fields, form.min_tokens, options.max_tokens);
  read_sampler(fields, form.n_vocab, options.sampler);
  options.ignore_eos = fields.flag("ignore_eos").value_or(options.ignore_eos);
  if (auto stop = read_strings(fields, "stop")) options.stop = std::move(*stop);
  read_logprobs(fields, form.logprobs, options.logprobs);
}

bool is_name(const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, allowed);
}

ConstraintFields read_constraint_fields(const Fields& body) {
  ConstraintFields out;
  read_format(body, out);
  if (const auto grammar = body.text("grammar")) {
    if (out.kind != ConstraintFields::Kind::None)
      refuse_unsupported("grammar", "it cannot be combined with \"response_format\"");
    out = {ConstraintFields::Kind::Grammar, *grammar, "grammar"};
  }
  return out;
}

std::shared_ptr<const Constraint> compile(const ConstraintFields& fields) {
  using Kind = ConstraintFields::Kind;
  if (fields.kind == Kind::None) return nullptr;
  if (fields.kind == Kind::JsonObject) return Constraint::any_object();
  const bool grammar = fields.kind == Kind::Grammar;
  try {
    return grammar ? Constraint::gbnf(fields.text) : Constraint::json_schema(fields.text);
  } catch (const ConstraintError& error) {
    throw RequestError(grammar ? "invalid_grammar" : "invalid_schema", fields.path,
                       "\"" + fields.path + "\": " + error.what());
  }
}

}  // namespace cria::tools
