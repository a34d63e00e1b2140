#include "tools/options/batch_request.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace cria::tools {
namespace {

using BatchJson = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& key, const std::string& expected, const BatchJson& got) {
  throw Error("", "\"" + key + "\": expected " + expected + ", got " + got.dump().substr(0, 60));
}

/// Takes keys out of an object; what is left at the end was not understood.
class Keys {
 public:
  explicit Keys(BatchJson object) : object_(std::move(object)) {}

  /// Null and absent are the same.
  std::optional<BatchJson> take(const std::string& key) {
    const auto found = object_.find(key);
    if (found == object_.end()) return std::nullopt;
    BatchJson value = std::move(*found);
    object_.erase(found);
    return value.is_null() ? std::nullopt : std::optional(std::move(value));
  }
  std::optional<std::string> take_text(const std::string& key) {
    const auto value = take(key);
    if (value && !value->is_string()) refuse(key, "a string", *value);
    return value ? std::optional(value->get<std::string>()) : std::nullopt;
  }
  std::optional<bool> take_flag(const std::string& key) {
    const auto value = take(key);
    if (value && !value->is_boolean()) refuse(key, "true or false", *value);
    return value ? std::optional(value->get<bool>()) : std::nullopt;
  }
  template <class T>
  void number(const std::string& key, T& to) {
    const auto value = take(key);
    if (!value) return;
    if (!value->is_number() || (std::is_integral_v<T> && !value->is_number_integer()))
      refuse(key, std::is_integral_v<T> ? "a whole number" : "a number", *value);
    const double wide = value->get<double>();
    if (wide < static_cast<double>(std::numeric_limits<T>::lowest()) ||
        wide > static_cast<double>(std::numeric_limits<T>::max()))
      refuse(key, "a number in range", *value);
    to = value->get<T>();
  }
  [[nodiscard]] const BatchJson& rest() const { return object_; }

 private:
  BatchJson object_;
};

void take_stop(Keys& keys, GenerateOptions& options) {
  const auto stop = keys.take("stop");
  if (!stop) return;
  options.stop.clear();
  for (const BatchJson& text : stop->is_array() ? *stop : BatchJson::array({*stop})) {
    if (!text.is_string()) refuse("stop", "a string or an array of strings", *stop);
    options.stop.push_back(text);
  }
}

void take_bias(Keys& keys, SamplerOptions& sampler) {
  const auto bias = keys.take("logit_bias");
  if (!bias) return;
  if (!bias->is_object()) refuse("logit_bias", "an object of token ids and numbers", *bias);
  for (const auto& [id, value] : bias->items()) {
    TokenId token = 0;
    const auto [rest, bad] = std::from_chars(id.data(), id.data() + id.size(), token);
    if (bad != std::errc() || rest != id.data() + id.size() || !value.is_number())
      refuse("logit_bias", "an object of token ids and numbers", *bias);
    sampler.logit_bias.emplace_back(token, value.get<float>());
  }
}

/// OpenAI's chats say whether and how many, its completions how many.
void take_logprobs(Keys& keys, GenerateOptions& options) {
  std::uint32_t top = 0;
  keys.number("top_logprobs", top);
  const auto wanted = keys.take("logprobs");
  if (!wanted || *wanted == false) return;
  if (*wanted != true && !wanted->is_number_unsigned())
    refuse("logprobs", "true, false or a number", *wanted);
  options.logprobs = wanted->is_boolean() ? top : wanted->get<std::size_t>();
}

void take_options(Keys& keys, GenerateOptions& options) {
  SamplerOptions& s = options.sampler;
  keys.number("max_tokens", options.max_tokens);
  keys.number("max_completion_tokens", options.max_tokens);
  keys.number("temperature", s.temperature);
  keys.number("top_p", s.top_p);
  keys.number("top_k", s.top_k);
  keys.number("min_p", s.min_p);
  keys.number("typical_p", s.typical_p);
  keys.number("repeat_penalty", s.repeat_penalty);
  keys.number("presence_penalty", s.presence_penalty);
  keys.number("frequency_penalty", s.frequency_penalty);
  keys.number("dry_multiplier", s.dry_multiplier);
  keys.number("mirostat", s.mirostat);
  std::uint64_t seed = s.seed.value_or(0);
  keys.number("seed", seed);
  s.seed = seed;
  options.ignore_eos = keys.take_flag("ignore_eos").value_or(options.ignore_eos);
  take_stop(keys, options);
  take_bias(keys, s);
  take_logprobs(keys, options);
}

/// What says nothing about the answer, or only what is done anyway.
void take_ignored(Keys& keys) {
  for (const char* key : {"model", "user", "store", "metadata", "service_tier", "stream_options"})
    keys.take(key);
  const auto only = [&](const char* key, const BatchJson& value) {
    const auto got = keys.take(key);
    if (got && *got != value) refuse(key, value.dump(), *got);
  };
  only("n", 1);
  only("stream", false);
  only("echo", false);
  only("best_of", 1);
  only("response_format", {{"type", "text"}});
}

/// The prompt, or the messages with what is left of the keys for the template.
void take_text(Keys& keys, BatchRequest& request) {
  if (const auto prompt = keys.take_text("prompt")) {
    request.prompt = *prompt;
    for (const auto& [key, value] : keys.rest().items())
      throw Error("", "\"" + key + "\" is no key of a prompt");
    return;
  }
  if (!keys.rest().contains("messages")) throw Error("", "expected \"prompt\" or \"messages\"");
  if (request.raw == true) throw Error("", "a text that goes on has a \"prompt\", no \"messages\"");
  request.conversation = parse_conversation(keys.rest().dump(), "");
  if (request.conversation.messages.empty()) throw Error("", "\"messages\" is empty");
}

BatchJson parse_line(const std::string& line) {
  BatchJson json;
  try {
    json = BatchJson::parse(line);
  } catch (const BatchJson::parse_error& error) {
    throw Error("", "not JSON", "at byte " + std::to_string(error.byte));
  }
  if (!json.is_object()) throw Error("", std::string("expected an object, got ") + json.type_name());
  return json;
}

}  // namespace

BatchRequest parse_batch_request(const std::string& line, const GenerateOptions& defaults) {
  BatchRequest request;
  request.generate = defaults;
  Keys outer(parse_line(line));
  request.custom_id = outer.take_text("custom_id").value_or("");
  std::optional<BatchJson> body = outer.take("body");
  request.openai = body.has_value();
  Keys keys = body ? Keys(std::move(*body)) : std::move(outer);
  if (request.openai) {
    if (!keys.rest().is_object()) refuse("body", "an object", keys.rest());
    const std::string url = outer.take_text("url").value_or("");
    const bool chat = url.ends_with("/chat/completions");
    if (!url.empty() && !chat && !url.ends_with("/completions"))
      refuse("url", "\"/v1/chat/completions\" or \"/v1/completions\"", url);
    request.raw = url.empty() ? keys.rest().contains("prompt") : !chat;
  } else {
    request.raw = keys.take_flag("raw");
  }
  take_options(keys, request.generate);
  take_ignored(keys);
  take_text(keys, request);
  return request;
}

BatchRequest identify_batch_request(const std::string& line) {
  BatchRequest request;
  const BatchJson json = BatchJson::parse(line, nullptr, false);
  if (!json.is_object()) return request;
  request.openai = json.contains("body");
  if (json.contains("custom_id") && json["custom_id"].is_string()) request.custom_id = json["custom_id"];
  return request;
}

}  // namespace cria::tools
