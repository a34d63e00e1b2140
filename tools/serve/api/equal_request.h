// Parts of translations to the requests of chat completions.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/serve/api/api.h"

namespace cria::serve {

/// Builds the messages of an equal request.
class MessageList {
 public:
  /// to: gets "messages", and paths from them to their sources. path: of all of them.
  explicit MessageList(EqualRequest& to, const std::string& path = "messages")
      : to_(to), path_(path) {
    to_.body["messages"] = Json::array();
    to_.paths.emplace_back("messages", path);
  }

  /// Adds a message that was made from the value at `path`.
  Json& add(Json message, const std::string& path);
  [[nodiscard]] bool empty() const { return list().empty(); }
  Json& back() { return to_.body["messages"].back(); }
  [[nodiscard]] std::size_t size() const { return list().size(); }
  /// Reads a part with "type" and "text". types: those that are text; "input_json" has "data", a
  /// value whose JSON text counts. Throws RequestError for other parts.
  std::string read_text_part(const Json& json, const std::string& path,
                             std::initializer_list<std::string_view> types);
  /// Reads a string, or an array of such parts, joined by `between`.
  std::string read_text_parts(const Json& content, const std::string& path,
                              std::initializer_list<std::string_view> types,
                              std::string_view between = "");
  /// Call it when a message, or a part of one, has been read: members that hold what was not read,
  /// such as "images", are an error, and other unread ones are named in the log.
  void finish(const Fields& read);
  /// If the last message is the assistant's, without calls, the answer continues it.
  void continue_last();

 private:
  [[nodiscard]] const Json& list() const { return to_.body.at("messages"); }
  EqualRequest& to_;
  const std::string path_;
};

/// Copies the unread members of the request to the equal one, except those that it has: the fields
/// that all protocols share. prefix: the beginning of their paths in the request.
void copy_own_fields(const Fields& from, EqualRequest& to, const std::string& prefix = "");
/// Lets a completion without a limit of tokens fill the context.
void end_with_context(EqualRequest& to);
/// Copies a field under another name.
void copy_field(const Fields& from, const std::string& name, EqualRequest& to,
                const std::string& equal);

}  // namespace cria::serve
