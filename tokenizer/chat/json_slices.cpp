#include "tokenizer/chat/json_slices.h"

#include <algorithm>

namespace cria {
namespace {

constexpr std::string_view kJsonSpace = " \t\r\n";

std::size_t after_space(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(kJsonSpace, at), text.size());
}

std::size_t string_end(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
  return std::min(at + 1, text.size());
}

std::size_t value_end(std::string_view text, std::size_t at) {
  if (text[at] == '"') return string_end(text, at);
  if (text[at] == '{' || text[at] == '[')
    return at + JsonEnd().find(text.substr(at)).value_or(text.size() - at);
  return std::min(text.find_first_of(",]} \t\r\n", at), text.size());
}

}  // namespace

std::optional<std::size_t> JsonEnd::find(std::string_view text) {
  for (; at_ < text.size(); ++at_) {
    const char c = text[at_];
    if (in_string_) {
      if (!escaped_ && c == '"') in_string_ = false;
      escaped_ = !escaped_ && c == '\\';
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if ((c == '}' || c == ']') && --depth_ == 0) {
      return ++at_;
    }
  }
  return std::nullopt;
}

std::vector<std::pair<std::string_view, std::string_view>> json_members(std::string_view text) {
  std::vector<std::pair<std::string_view, std::string_view>> members;
  const bool is_object = text.starts_with('{');
  for (std::size_t at = after_space(text, 1);
       at < text.size() && text[at] != '}' && text[at] != ']';) {
    std::string_view key;
    if (is_object) {
      const std::size_t end = string_end(text, at);
      key = text.substr(at + 1, end - at - 2);
      at = after_space(text, after_space(text, end) + 1);  // past the colon
    }
    const std::size_t end = value_end(text, at);
    members.emplace_back(key, text.substr(at, end - at));
    at = after_space(text, end);
    if (at < text.size() && text[at] == ',') at = after_space(text, at + 1);
  }
  return members;
}

}  // namespace cria
