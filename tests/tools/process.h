// Runs the built program as its users do: arguments, stdin, environment in; exit code, stdout,
// stderr out.
#pragma once

#include <sys/types.h>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cria::test {

inline const std::string kDemo = CRIA_DATA "/cria-demo-Q8_0.gguf";

struct Result {
  int code = -1;  ///< exit code; 128 + signal if one ended it
  std::string out, err;
};

/// environment: "NAME=value" entries that replace or add to the test's own.
Result cria(std::vector<std::string> arguments, std::string_view input = {},
            std::vector<std::string> environment = {});

/// Environment of a program under test.
struct Surroundings {
  std::string_view input = {};
  std::vector<std::string> environment = {};  ///< as above
  enum class Output { File, Full, Closed, NoReader } output = Output::File;
  bool input_closed = false;
  bool piecemeal = false;          ///< input comes through a pipe, some bytes at a time
  std::size_t address_space = 0;   ///< RLIMIT_AS in bytes; 0: none
  std::size_t file_size = 0;       ///< RLIMIT_FSIZE in bytes; 0: none
  bool obeys_permissions = false;  ///< also for the superuser
  std::function<void()> in_child =
      {};  ///< called before the program takes over, to set other limits say
};
Result cria_in(const Surroundings& around, std::vector<std::string> arguments);

/// A program that runs concurrently with the test, which holds its stdout and, for a terminal, its
/// stdin.
class Child {
 public:
  enum class Kind {
    Pipe,
    Terminal,
    Shell,  ///< a terminal with bash, which has job control; the arguments are bash's
  };
  /// A terminal is an xterm, unless environment says otherwise. errors: a file for stderr, where
  /// that is not the terminal's; "": the test's own.
  Child(Kind kind, std::vector<std::string> arguments, std::vector<std::string> environment = {},
        const std::string& errors = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void send(std::string_view bytes) const;  ///< to a terminal: as typed
  void signal(int number) const;
  /// Reads until the text has come (after what earlier calls consumed); false if the program ends
  /// or says nothing for 60 s.
  bool wait_for(std::string_view text);
  int exit_code();  ///< waits for the end
  /// True if the terminal is in the mode that other programs expect: the system edits and echoes
  /// lines.
  [[nodiscard]] bool terminal_is_cooked() const;
  void resize(unsigned short rows, unsigned short columns) const;
  void cook_terminal() const;  ///< done by a shell when it resumes
  [[nodiscard]] const std::string& output() const { return output_; }

 private:
  bool read_more();

  pid_t pid_ = -1;
  int descriptor_ = -1;
  std::string output_;
  std::size_t consumed_ = 0;
};

/// A directory that is gone with this object.
class TempDirectory {
 public:
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  [[nodiscard]] std::string path(std::string_view name = {}) const;
  /// Writes a file; returns its path.
  std::string write(std::string_view name, std::string_view bytes) const;

 private:
  std::string path_;
};

std::string read_file(const std::string& path);
std::size_t count_lines(std::string_view text);

}  // namespace cria::test
