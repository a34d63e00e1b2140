#include <gtest/gtest.h>

#include "engine/constrain/constraint.h"

namespace cria {
namespace {

constexpr const char* kTwoTools =
    R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties":
    {"on": {"type": "boolean"}}, "required": ["on"], "additionalProperties": false}}},
    {"type": "function", "function": {"name": "g"}}])";

TEST(ToolCalls, ANamedOneIsCalledOnce) {
  const std::string f = R"({"name": "f", "arguments": {"on": true}})",
                    g = R"({"name": "g", "arguments": {}})";
  for (const bool parallel : {true, false}) {
    for (const std::string name : {"", "f"}) {
      const auto calls = Constraint::tool_calls({CallForm::Mistral, kTwoTools, name, parallel});
      EXPECT_TRUE(calls->accepts("[TOOL_CALLS][" + f + "]"));
      EXPECT_EQ(calls->accepts("[TOOL_CALLS][" + f + ", " + f + "]"), parallel && name.empty());
      EXPECT_EQ(calls->accepts("[TOOL_CALLS][" + g + "]"), name.empty());
      EXPECT_FALSE(calls->begins(R"([TOOL_CALLS][{"name": "f", "arguments": {"on": 1)"));
    }
  }
}

}  // namespace
}  // namespace cria
