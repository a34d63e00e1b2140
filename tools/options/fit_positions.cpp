#include "tools/options/fit_positions.h"

#include <algorithm>
#include <string>

#include "engine/distribute/leader.h"
#include "engine/session/draft_model.h"
#include "engine/session/kv_fraction.h"
#include "model/plural.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

void print_memory(const Model& model, const Model* draft, const EngineOptions& wanted) {
  EngineMemory memory = engine_memory(model, wanted);
  if (draft != nullptr) {
    const EngineMemory more = draft_memory(*draft, wanted);
    memory.kv += more.kv;
    memory.work += more.work;
  }
  print_line("memory: keys and values " + human_bytes(memory.kv) + " for " +
             counted(wanted.positions, "position") + ", work " + human_bytes(memory.work) +
             "; available " + human_bytes(memory.available));
}

}  // namespace

EngineOptions fit_positions(const Model& model, const Model* draft, EngineOptions wanted,
                            bool verbose) {
  constexpr double kMost = 0.5;  // of what is available: the model's file has to be read, too
  wanted.positions = std::uint64_t{wanted.n_ctx} * wanted.sequences;
  for (;; wanted.positions = std::max<std::uint64_t>(wanted.n_ctx, wanted.positions / 2)) {
    if (verbose) print_memory(model, draft, wanted);
    if (wanted.positions == wanted.n_ctx) return wanted;
    const double fraction =
        kv_fraction(model, wanted) + (draft != nullptr ? kv_fraction(*draft, wanted) : 0);
    if (verbose && Leader::current() != nullptr)
      print_line("memory: " + fixed(100 * fraction, 1) + " % where least is left of all ranks");
    if (fraction <= kMost) return wanted;
  }
}

}  // namespace cria::tools
