// Questions for the served demo model, and its answers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "model/file/json.h"
#include "tests/tools/serve/fake_exchange.h"

namespace cria::serve::test {

inline constexpr const char* kChatPath = "/v1/chat/completions";
inline constexpr const char* kTextPath = "/v1/completions";

inline Json question(const std::string& text, Json more = Json::object()) {
  Json body = {{"messages", {{{"role", "user"}, {"content", text}}}}, {"temperature", 0}};
  body.update(more);
  return body;
}
inline constexpr const char* kStory = "Tell me a short story about a dragon.";
inline constexpr const char* kCount = "Count from 1 to 10.";

inline std::string content(const FakeExchange& answer, std::size_t choice = 0) {
  const Json json = answer.json()["choices"][choice];
  return json.contains("text") ? json["text"] : json["message"]["content"];
}

}  // namespace cria::serve::test
