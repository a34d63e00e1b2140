// The offered tools and the types of their arguments, for formats that write strings without
// quotes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// Parses the tools on first use, and once.
class OfferedTools {
 public:
  /// json: the array of a request. Anything else offers nothing.
  explicit OfferedTools(std::string json = "") : json_(std::move(json)) {}

  /// Returns the types that the schema of a tool allows for an argument; empty if it has none.
  const std::vector<std::string>& types(std::string_view tool, std::string_view argument);
  /// True if a tool has this name, or no tools are known.
  bool may_call(std::string_view tool);

 private:
  using Types = std::map<std::string, std::vector<std::string>, std::less<>>;  // by argument

  void read();

  std::string json_;  // empty after read()
  std::set<std::string, std::less<>> names_;
  std::map<std::string, Types, std::less<>> tools_;  // tools with properties
};

}  // namespace cria
