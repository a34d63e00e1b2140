// Terminals of several widths: no help, table or message is wider than they are.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "tests/tools/process.h"
#include "tools/cli/command_line.h"
#include "tools/terminal/wrap.h"

namespace cria::test {
namespace {

/// Returns what the program writes to a terminal with `columns` columns, stdout and stderr
/// combined.
std::string shown(unsigned short columns, std::vector<std::string> arguments) {
  int master = -1, slave = -1;
  winsize size = {.ws_row = 40, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  if (openpty(&master, &slave, nullptr, nullptr, &size) != 0) throw std::runtime_error("openpty");
  fcntl(master, F_SETFD, FD_CLOEXEC);
  std::string out;
  std::thread reader([&] {
    char bytes[4096];
    for (ssize_t n = 0; (n = read(master, bytes, sizeof bytes)) > 0;)
      out.append(bytes, static_cast<std::size_t>(n));
  });
  const Surroundings around = {.environment = {"TERM=xterm", "NO_COLOR=1"}, .in_child = [&] {
                                 dup2(slave, STDOUT_FILENO);
                                 dup2(slave, STDERR_FILENO);
                               }};
  (void)cria_in(around, std::move(arguments));
  close(slave);  // the reader's end
  reader.join();
  close(master);
  return out;
}

void expect_fits(unsigned short columns, const std::vector<std::string>& arguments) {
  std::istringstream lines(shown(columns, arguments));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    std::istringstream writings(line);  // slow machines overwrite a line: progress bars
    for (std::string written; std::getline(writings, written, '\r');) {
      constexpr std::string_view kEraseToTheEnd = "\x1b[K";
      if (written.starts_with(kEraseToTheEnd)) written.erase(0, kEraseToTheEnd.size());
      EXPECT_LE(tools::display_width(written), columns) << arguments[0] << ": " << written;
    }
  }
  EXPECT_GT(count, 0U) << arguments[0];
}

constexpr unsigned short kWidths[] = {60, 80, 132};

TEST(Columns, HelpOfEverySubcommandFits) {
  std::istringstream overview(cria({"help"}).out);
  std::vector<std::string> commands;
  bool listed = false;
  for (std::string line; std::getline(overview, line);) {
    if (line == "Commands:")
      listed = true;
    else if (line.empty())
      listed = false;
    else if (listed && line.starts_with("  ") && line[2] != ' ')
      commands.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  ASSERT_GT(commands.size(), 20U);
  for (const unsigned short columns : kWidths) {
    expect_fits(columns, {"help"});
    for (const std::string& command : commands) expect_fits(columns, {command, "--help-all"});
  }
}

// A backslash before a newline would be part of what is quoted.
TEST(Columns, KeepQuotedExamplesWhole) {
  EXPECT_EQ(tools::footer_text("  cria a --set 'b c d' --to e", 24),
            "  cria a --set 'b c d' \\\n      --to e");
  EXPECT_EQ(tools::footer_text("  cria run \"b \\\"c d f\" e", 24),
            "  cria run \"b \\\"c d f\" \\\n      e");
}

TEST(Columns, TablesFit) {
  const TempDirectory directory;
  const std::string f16 = directory.path("f16.gguf");
  for (const unsigned short columns : kWidths) {
    expect_fits(columns, {"inspect", kDemo});
    expect_fits(columns, {"inspect", kDemo, "--check"});
    expect_fits(columns, {"inspect", kDemo, "--graph"});
    expect_fits(columns, {"inspect", "--cpu"});
    expect_fits(columns, {"quantize", "--mixes"});
    expect_fits(columns, {"quantize", kDemo, directory.path("out.gguf"), "Q8_0", "--pure",
                          "--dry-run", "--allow-requantize"});
    expect_fits(columns, {"list", "--paths"});
    expect_fits(columns, {"config", "run"});
    expect_fits(columns, {"bench", "-p", "8", "-n", "2", "-r", "1", "-t", "1"});
    expect_fits(columns, {"bench", "--verify", "1,16", "-r", "1", "-t", "1"});
    expect_fits(columns, {"bench", "--parallel", "2", "-p", "8", "-n", "2", "-r", "1", "-t", "1"});
    expect_fits(columns,
                {"bench", "--speculate-rates", "50", "-p", "8", "-n", "8", "-r", "1", "-t", "1"});
    expect_fits(columns, {"split", kDemo, directory.path("part"), "--dry-run"});
  }
}

TEST(Columns, MessagesFit) {
  // The demo model under a short name: a path is not broken, wherever this project's folder may
  // lie.
  const TempDirectory directory;
  const std::string demo = directory.path("demo.gguf");
  std::filesystem::create_symlink(kDemo, demo);
  for (const unsigned short columns : kWidths) {
    expect_fits(columns, {"rnu"});
    expect_fits(columns, {"run", "-m", "no-such-model-at-all", "-p", "a"});
    expect_fits(columns, {"bench", "--synthetic", "0.5b:Q9_Z"});
    expect_fits(columns, {"run", "-m", demo, "-v", "-p", "The", "-n", "1", "--temp", "0"});
    expect_fits(columns, {"run", "-m", demo, "Tell me a story.", "--temp", "0"});
  }
}

TEST(Columns, PipesGetCompleteLines) {
  const std::string table = cria({"inspect", kDemo, "--kv"}).out;
  EXPECT_NE(table.find("tokenizer.ggml.token_type"), std::string::npos);
  std::istringstream lines(table);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);)
    widest = std::max(widest, tools::display_width(line));
  EXPECT_GT(widest, 80U);
}

}  // namespace
}  // namespace cria::test
