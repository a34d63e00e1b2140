#include "tools/options/command.h"

namespace cria::tools {

void on_run(CLI::App* command, std::function<int()> body) {
  command->callback([body = std::move(body)] {
    if (const int code = body(); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace cria::tools
