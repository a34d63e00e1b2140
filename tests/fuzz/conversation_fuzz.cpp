// Conversations in JSON, and multiple-choice questions.
#include "tools/options/conversation.h"

#include "model/error.h"
#include "tests/fuzz/memory_file.h"
#include "tools/commands/choices.h"

namespace cria::fuzz {
namespace {

void run_conversation(std::string_view input) {
  static const MemoryDirectory directory;
  const MemoryFile file(input);
  try {
    const tools::Conversation talk = tools::read_conversation(file.path());
    tools::write_conversation(directory.path("talk.json"), talk);
    const tools::Conversation again = tools::read_conversation(directory.path("talk.json"));
    require(again.messages.size() == talk.messages.size(), "another number of messages");
    for (std::size_t i = 0; i < talk.messages.size(); ++i)
      require(again.messages[i].role.size() >= talk.messages[i].role.size(), "another role");
    return;
  } catch (const Error&) {  // may be the other kind of file
  }
  for (const ChoiceQuestion& question : tools::read_choices(file.path()))
    require(question.answer < question.choices.size(), "answer is not a choice");
}

std::vector<std::string> conversation_seeds() {
  return {
      R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}])",
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":{"x":1.5,"y":null}}}]},{"role":"tool","content":null}],"tools":[{"a":-1}],"n":7,"b":[true,{}]})",
      R"({"messages":[],"n":18446744073709551615})",
      R"([{"role":"user"}])",
      R"([{"role":1}])",
      "[1]",
      "{}",
      R"([{"role":"user","content":1e400}])",
      R"([{"role":"user","content":{}}])",
      R"({"question":"Q","choices":["a","b"],"answer":1}
{"ctx":"Q","endings":["a","b"],"label":"0"}
)",
      R"({"question":"Q","choices":{"text":["a","b"],"label":["A","B"]},"answerKey":"B"})"};
}

std::vector<std::string> conversation_words() {
  return {"\"role\"",     "\"content\"", "\"messages\"", "\"tool_calls\"",
          "\"question\"", "\"choices\"", "\"answer\"",   "\"answerKey\"",
          "\"ctx\"",      "\"endings\"", "\"label\"",    "\"text\"",
          "null",         "1e999",       "[[[[[[[[",     "{\"a\":"};
}

}  // namespace

const Target kConversation{"conversation", run_conversation, conversation_seeds, nullptr,
                           conversation_words};

}  // namespace cria::fuzz
