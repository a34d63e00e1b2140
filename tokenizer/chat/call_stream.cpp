#include "tokenizer/chat/call_stream.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/file/json.h"
#include "tokenizer/chat/call_parser.h"
#include "tokenizer/chat/call_values.h"
#include "tokenizer/chat/partial_marker.h"

namespace cria {
namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::size_t kMaxHead = 4096;  // bytes before the arguments of a call that is passed on

/// Reads the beginning of an object, which may end anywhere.
class ObjectHead {
 public:
  explicit ObjectHead(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  [[nodiscard]] std::size_t at() const { return at_; }
  bool take(char c) {
    at_ = std::min(text_.find_first_not_of(kTextSpace, at_), text_.size());
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  [[nodiscard]] bool next_is(char c) {
    const bool is = take(c);
    at_ -= is ? 1 : 0;
    return is;
  }
  /// Reads a string; nullopt if it is incomplete, or something else.
  std::optional<std::string> string() {
    if (!next_is('"')) return std::nullopt;
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return std::nullopt;
    const auto json = try_json(text_.substr(at_, end + 1 - at_));
    if (!json.is_string()) return std::nullopt;
    at_ = end + 1;
    return json.get<std::string>();
  }

 private:
  std::string_view text_;
  std::size_t at_;
};

/// Bytes of a growing string value that belong to it for certain.
std::size_t certain_text(const CallFormat& format, std::string_view value) {
  std::size_t end = value.size();
  for (const std::string& marker :
       {std::string(format.value_close), "\n" + std::string(format.key_open),
        "\n" + std::string(format.close)}) {
    const std::size_t found = value.find(marker);
    end = std::min(end, found == kNone ? value.size() - begun(value, marker) : found);
  }
  while (end > 0 && value[end - 1] == '\n') --end;
  return end;
}

}  // namespace

// A word is a number, true, false or null.
bool JsonPrefix::end_word(std::string_view text) {
  const std::size_t begin = std::exchange(word_, kNone);
  return begin == kNone || is_json(text.substr(begin, at_ - begin));
}

// False: the byte at at_ is not JSON, or the object ends before it.
bool JsonPrefix::take(std::string_view text) {
  const char c = text[at_];
  if (in_string_) {
    if (static_cast<unsigned char>(c) < 0x20) return false;
    const bool escaped = std::exchange(escaped_, !escaped_ && c == '\\');
    if (c == '"' && !escaped) in_string_ = false;
    return true;
  }
  if (std::string_view("{}[],:\" \t\r\n").find(c) == kNone) {
    if (word_ == kNone) word_ = at_;
    return true;
  }
  if (!end_word(text)) return false;
  if (c == '"') in_string_ = true;
  if (c == '{' || c == '[') ++depth_;
  if ((c == '}' || c == ']') && --depth_ == 0) complete_ = true;
  return true;
}

std::size_t JsonPrefix::certain(std::string_view text) {
  while (!broken_ && !complete_ && at_ < text.size()) {
    const std::size_t word = word_;
    if (take(text)) {
      ++at_;
    } else {
      broken_ = true;
      at_ = std::min(at_, word);
    }
  }
  return std::min(at_, word_);
}

// Finds the name and the arguments of the object, or NAME and its marker, that the text begins
// with. nullopt: they are not there, or not yet.
std::optional<CallStream::Opening> CallStream::opening(const CallFormat& format,
                                                       std::string_view text) {
  ObjectHead head(text, 0);
  if (format.body == CallBody::Named || !head.take('{')) {
    const std::size_t mark = format.name_close.empty() ? kNone : text.find(format.name_close);
    if (mark == kNone) return std::nullopt;
    const std::string_view name = without_spaces(text.substr(0, mark));
    ObjectHead rest(text, mark + format.name_close.size());
    const bool plain = name != "function" && name.find_first_of("{[") == kNone;
    if (name.empty() || !plain) return std::nullopt;
    return Opening{std::string(bare_tool_name(format, name)),
                   rest.next_is('{') ? rest.at() : kNone};
  }
  Opening out;
  for (;;) {
    const auto key = head.string();
    if (!key || !head.take(':')) break;
    if (format.body == CallBody::KeyedJson) {
      out.name = *key;
      if (head.next_is('{')) out.arguments = head.at();
      break;
    }
    if ((*key == "arguments" || *key == "parameters") && head.next_is('{')) {
      out.arguments = head.at();
      break;
    }
    if (*key == "function" && head.take('{')) continue;
    const auto value = head.string();
    if (!value) break;
    if (*key == "name" || *key == "tool_name") out.name = *value;
    if (!head.take(',')) break;
  }
  return out.name.empty() ? std::nullopt : std::optional(std::move(out));
}

void CallStream::begin(std::string name, const Sink& sink) {
  begun_.push_back({"", std::move(name), ""});
  open_ = true;
  if (sink) sink({begun_.back().name, ""});
}

void CallStream::add(std::string_view arguments, const Sink& sink) {
  if (arguments.empty()) return;
  begun_.back().arguments += arguments;
  if (sink) sink({"", arguments});
}

// Steps from the end of the arguments to the next object of a list.
bool CallStream::next_object(std::string_view text) {
  ObjectHead head(text, object_);
  while (head.take('}')) {
  }
  if (!head.take(',') || !head.next_is('{')) return false;
  object_ = head.at();
  between_ = false;
  return true;
}

void CallStream::read_json(const CallFormat& format, std::string_view text, OfferedTools& tools,
                           const Sink& sink) {
  for (;;) {
    if (!open_) {
      if (between_ && !next_object(text)) return;
      ObjectHead head(text, object_);
      if (begun_.empty() && head.take('[')) object_ = head.at();
      auto found = opening(format, text.substr(object_));
      at_end_only_ = !found && text.size() - object_ > kMaxHead;
      if (!found || found->arguments == kNone) return;
      if (format.unmarked && !tools.may_call(found->name)) return;
      at_ = object_ + found->arguments;
      prefix_ = {};
      begin(std::move(found->name), sink);
    }
    const std::string_view arguments = text.substr(at_);
    const std::size_t n = prefix_.certain(arguments);
    add(arguments.substr(0, n).substr(begun_.back().arguments.size()), sink);
    if (!prefix_.complete()) return;
    open_ = false;
    between_ = true;
    object_ = at_ + n;
  }
}

// Passes on what an argument, or its beginning, adds to what has been passed on of it.
void CallStream::add_argument(const std::string& json, const Sink& sink) {
  if (!open_) begin(name_, sink);
  if (argument_.empty()) add(begun_.back().arguments.empty() ? "{" : ", ", sink);
  at_end_only_ = !json.starts_with(argument_);
  if (at_end_only_) return;
  add(std::string_view(json).substr(argument_.size()), sink);
  argument_ = json;
}

void CallStream::read_tagged(const CallFormat& format, std::string_view text, OfferedTools& tools,
                             const Sink& sink) {
  if (name_.empty()) {
    const std::string_view mark = format.name_close.empty() ? format.key_open : format.name_close;
    const std::size_t end = text.find(mark);
    if (end == kNone) return;
    name_ = without_spaces(text.substr(0, end));
    at_ = end + format.name_close.size();
    if (name_.empty() || name_.find_first_of("<{") != std::string::npos) at_end_only_ = true;
  }
  while (!at_end_only_) {
    const std::size_t value = text.find(format.value_close, at_);
    if (value == kNone) return read_growing(format, text.substr(at_), tools, sink);
    std::string_view rest = text.substr(at_, value + format.value_close.size() - at_);
    const std::size_t size = rest.size();
    const auto argument = take_tagged_argument(format, name_, rest, tools);
    if (!argument) return;
    add_argument(*argument, sink);
    argument_.clear();
    at_ += size - rest.size();
  }
}

// Passes on the beginning of an argument that is certainly a string.
void CallStream::read_growing(const CallFormat& format, std::string_view text, OfferedTools& tools,
                              const Sink& sink) {
  const std::size_t open = text.find(format.key_open);
  if (open == kNone) return;
  const std::size_t key = open + format.key_open.size(), key_end = text.find(format.key_close, key);
  if (key_end == kNone) return;
  std::size_t value = key_end + format.key_close.size();
  const std::string_view name = without_spaces(text.substr(key, key_end - key));
  bool is_string = tools.types(name_, name) == std::vector<std::string>{"string"};
  if (!format.value_open.empty()) {
    const std::size_t mark = text.find(format.value_open, value);
    if (mark == kNone) return;
    const std::string_view kind = text.substr(value, mark - value);
    is_string = kind == "true" || (is_string && kind != "false");
    value = mark + format.value_open.size();
  }
  std::string_view said = text.substr(value);
  if (format.trim_lines && said.starts_with('\n')) said.remove_prefix(1);
  said = said.substr(0, certain_text(format, said));
  if (!is_string || said.empty()) return;
  std::string json = json_string(name) + ": " + json_string(said);
  json.pop_back();
  add_argument(json, sink);
}

void CallStream::read(const CallFormat& format, std::string_view text, OfferedTools& tools,
                      const Sink& sink) {
  if (at_end_only_) return;
  switch (format.body) {
    case CallBody::JsonObject:
    case CallBody::KeyedJson:
    case CallBody::Named:
      return read_json(format, text, tools, sink);
    case CallBody::Tagged:
      return read_tagged(format, text, tools, sink);
    case CallBody::Python:
    case CallBody::Gemma:
    case CallBody::Channel:
      return;
  }
}

std::vector<ToolCall> CallStream::finish(std::vector<ToolCall> parsed, const Sink& sink) {
  const std::size_t last = begun_.size();  // the only one that may be incomplete is before it
  for (std::size_t i = 0; i < parsed.size(); ++i) {
    const ToolCall& call = parsed[i];
    if (i + 1 == last && call.name == begun_[i].name &&
        call.arguments.starts_with(begun_[i].arguments))
      add(std::string_view(call.arguments).substr(begun_[i].arguments.size()), sink);
    if (i < last) continue;
    begin(call.name, sink);
    add(call.arguments, sink);
  }
  return std::exchange(begun_, {});
}

std::vector<ToolCall> CallStream::cut(const CallFormat& format, std::string_view text,
                                      const Sink& sink) {
  const bool json = format.body == CallBody::JsonObject || format.body == CallBody::KeyedJson ||
                    format.body == CallBody::Named;
  if (open_ && json)
    add(text.substr(std::min(at_ + begun_.back().arguments.size(), text.size())), sink);
  if (!open_ && json && !format.unmarked && (!between_ || next_object(text))) {
    ObjectHead head(text, object_);
    if (begun_.empty() && head.take('[')) object_ = head.at();
    if (auto found = opening(format, text.substr(object_))) begin(std::move(found->name), sink);
  }
  if (format.body == CallBody::Tagged && !open_ && !name_.empty() && !at_end_only_)
    begin(name_, sink);
  return std::exchange(begun_, {});
}

}  // namespace cria
