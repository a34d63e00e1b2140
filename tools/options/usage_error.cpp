#include "tools/options/usage_error.h"

#include <string_view>

namespace cria::tools {
namespace {

/// What stands behind a beginning that CLI11's messages have; "" where the text does not begin so.
std::string after(const std::string& text, std::string_view beginning) {
  return text.starts_with(beginning) ? text.substr(beginning.size()) : "";
}

/// How a text is given to the command, if it takes one.
std::string text_hint(const CLI::App* command) {
  const auto has = [command](const char* name) {
    return command->get_option_no_throw(name) != nullptr;
  };
  if (command == nullptr || !has("--prompt") || !has("--file")) return "";
  return has("PROMPT") ? " (put a text of several words in quotes)" : " (-p TEXT takes a text)";
}

}  // namespace

std::string usage_text(const CLI::ParseError& error, const CLI::App* command) {
  const std::string text = error.what(), kind = error.get_name();
  if (const std::string rest = after(text, "Could not convert: "); !rest.empty()) {
    const std::size_t equals = rest.find(" = ");
    if (equals != std::string::npos)
      return rest.substr(0, equals) + ": not a number that fits: " + rest.substr(equals + 3);
  }
  for (const std::string_view beginning :
       {"The following argument was not expected: ", "The following arguments were not expected: "})
    if (const std::string rest = after(text, beginning); !rest.empty())
      return "an argument too many: " + rest + text_hint(command);
  if (const std::size_t at = text.find(" excludes ");
      kind == "ExcludesError" && at != std::string::npos)
    return text.substr(0, at) + " and " + text.substr(at + 10) + " exclude each other";
  if (const std::size_t at = text.find(" requires ");
      kind == "RequiresError" && at != std::string::npos)
    return text.substr(0, at) + " goes with " + text.substr(at + 10) + " only";
  if (const std::size_t at = text.find(": 1 required ");
      kind == "ArgumentMismatch" && at != std::string::npos)
    return text.substr(0, at) + ": its value is missing";
  if (const std::size_t at = text.rfind(" is required");
      kind == "RequiredError" && at != std::string::npos)
    return text.substr(0, at) + " is missing";
  return text;
}

}  // namespace cria::tools
