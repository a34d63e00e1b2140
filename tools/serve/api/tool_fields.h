// The tools that a request offers, and whether the model is to call one.
#pragma once

#include <cstdint>
#include <string>

#include "tools/serve/api/messages.h"

namespace cria::serve {

struct ToolFields {
  enum class Choice : std::uint8_t { None, Auto, Required, Named };
  RequestJson tools;  ///< the array as it was sent, or null
  Choice choice = Choice::Auto;
  std::string name;      ///< of the one that is Named
  bool parallel = true;  ///< several calls in an answer; else the first one counts

  /// Whether the model gets to see them.
  [[nodiscard]] bool offered() const { return !tools.is_null() && choice != Choice::None; }
  /// Whether it has to call one.
  [[nodiscard]] bool demanded() const {
    return choice == Choice::Required || choice == Choice::Named;
  }
};

/// Throws RequestError with the path of what is wrong.
ToolFields read_tool_fields(const Fields& body);

}  // namespace cria::serve
