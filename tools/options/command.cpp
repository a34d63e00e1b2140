#include "tools/options/command.h"

namespace cria::tools {

CLI::Validator named_file() {
  return {[](const std::string& path) {
            return path == "-" ? "expected the name of a file: this is not written to stdout, got -"
                               : "";
          },
          ""};
}

void on_run(CLI::App* command, std::function<int()> body) {
  command->callback([body = std::move(body)] {
    if (const int code = body(); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace cria::tools
