// What offered tools say of the values of their arguments: it tells texts from numbers where a form
// of calls does not.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// Read when it is first asked, and once: answers may call often, and tools may be long.
class OfferedTools {
 public:
  /// json: the array that the model was offered, as requests have it. Anything else offers nothing.
  explicit OfferedTools(std::string json = "") : json_(std::move(json)) {}

  /// The types that a tool's schema names for an argument, in its alternatives too; none where it
  /// says nothing.
  const std::vector<std::string>& types(std::string_view tool, std::string_view argument);
  /// Whether a tool of this name is there. True for all where nothing is offered: then nobody
  /// knows.
  bool may_call(std::string_view tool);

 private:
  using Types = std::map<std::string, std::vector<std::string>, std::less<>>;  // by argument

  void read();

  std::string json_;  // empty once it is read
  std::set<std::string, std::less<>> names_;
  std::map<std::string, Types, std::less<>> tools_;  // those that say something of their arguments
};

}  // namespace cria
