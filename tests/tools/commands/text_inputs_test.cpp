// Every pair of ways to give a text: both texts reach the model, or the program says which does
// not.
#include <gtest/gtest.h>

#include "tests/tools/process.h"

namespace cria::test {
namespace {

/// A way to give a command a text.
struct TextInput {
  std::string name;  ///< as messages call it
  std::function<std::vector<std::string>(const std::string& text)> arguments;
  bool is_stdin = false;
};

class TextInputs : public ::testing::TestWithParam<std::string> {
 protected:
  std::string file(const std::string& text) {
    return directory_.write("file" + std::to_string(++files_), text);
  }

  /// The session file of a chat in which a user has said the text.
  std::string session(const std::string& text) {
    const std::string path = directory_.path("session" + std::to_string(++files_));
    EXPECT_EQ(cria({"chat", "--session", path, "-n", "1"}, text + "\n").code, 0);
    return path;
  }

  static std::string messages(const std::string& text) {
    return R"([{"role": "user", "content": ")" + text + R"("}])";
  }

  std::vector<TextInput> inputs(const std::string& command) {
    const auto option = [](std::string name) {
      return TextInput{name, [name](const std::string& text) {
                         return std::vector<std::string>{name, text};
                       }};
    };
    std::vector<TextInput> all = {
        option("--system"),
        {"--session",
         [this](const auto& text) {
           return std::vector<std::string>{"--session", session(text)};
         }},
        {"stdin", [](const auto&) { return std::vector<std::string>(); }, true},
        {"--chat-template-kwargs", [](const auto& text) {
           return std::vector<std::string>{"--chat-template-kwargs", R"({"aim": ")" + text + "\"}"};
         }}};
    if (command == "chat") return all;
    all.push_back(option("--prompt"));
    all.push_back({"PROMPT", [](const auto& text) { return std::vector<std::string>{text}; }});
    all.push_back({"--file", [this](const auto& text) {
                     return std::vector<std::string>{"--file", file(text)};
                   }});
    all.push_back({"--messages", [this](const auto& text) {
                     return std::vector<std::string>{"--messages", file(messages(text))};
                   }});
    return all;
  }

 private:
  TempDirectory directory_;
  int files_ = 0;
};

TEST_P(TextInputs, NoneIsLostBesideAnother) {
  const std::string command = GetParam();
  for (const TextInput& a : inputs(command))
    for (const TextInput& b : inputs(command)) {
      if (a.is_stdin && b.is_stdin) continue;
      std::vector<std::string> words = {command, "-n", "1", "--show-prompt"};
      std::string input;
      const auto give = [&](const TextInput& one, const std::string& text) {
        for (std::string& word : one.arguments(text)) words.push_back(std::move(word));
        if (one.is_stdin) input = text + "\n";
      };
      give(a, "violet");
      give(b, "orange");
      if (command == "chat" && input.empty()) input = "hello\n";
      const Result result = cria(words, input);
      SCOPED_TRACE(command + ": " + a.name + " and " + b.name + ": " + result.err);
      EXPECT_TRUE(result.code == 0 || result.code == 1 || result.code == 2);
      if (result.code != 0) continue;  // it says why
      const auto arrives = [&](const TextInput& one, const std::string& text) {
        return result.err.find(text) != std::string::npos ||
               result.err.find("note: " + one.name) != std::string::npos ||
               result.err.find("in " + one.name + " changes nothing") != std::string::npos;
      };
      EXPECT_TRUE(arrives(a, "violet"));
      EXPECT_TRUE(arrives(b, "orange"));
    }
}

INSTANTIATE_TEST_SUITE_P(Of, TextInputs, ::testing::Values("run", "chat"),
                         [](const auto& of) { return of.param; });

}  // namespace
}  // namespace cria::test
