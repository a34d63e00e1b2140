// What requests ask of the form of their answers, compiled, and kept for the next request that asks
// the same.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/constrain/constraint.h"
#include "tools/serve/api/completion_request.h"

namespace cria::serve {

/// Safe from any thread.
class Constraints {
 public:
  using Pointer = std::shared_ptr<const Constraint>;

  /// note: gets a line for the log, once for each that is compiled. most_bytes: of those that are
  /// kept. most_in_use: of these and those that requests hold.
  explicit Constraints(std::function<void(const std::string&)> note,
                       std::size_t most_bytes = std::size_t{128} << 20,
                       std::size_t most_in_use = std::size_t{512} << 20)
      : note_(std::move(note)), most_bytes_(most_bytes), most_in_use_(most_in_use) {}

  /// Null: anything. form: how tools are called. Throws RequestError "invalid_schema" or
  /// "invalid_grammar" with the field, and "unsupported_parameter" where calls of this form cannot
  /// be held to what it demands; "queue_full" where all together take too much memory.
  Pointer of(const CompletionRequest& request, CallForm form);
  /// Whether of() has nothing to compile.
  [[nodiscard]] bool has(const CompletionRequest& request, CallForm form);

 private:
  Pointer find(const std::string& key, const std::function<Pointer()>& compile);

  Pointer of_tools(const ToolFields& tools, CallForm form);
  bool knows(const std::string& key);
  void drop_oldest();
  void make_room(const Constraint& made);
  [[nodiscard]] std::size_t in_use();

  struct Entry {
    std::string key;
    Pointer constraint;
  };
  const std::function<void(const std::string&)> note_;
  const std::size_t most_bytes_, most_in_use_;
  std::mutex mutex_;
  std::list<Entry> entries_;                             // the latest first
  std::vector<std::weak_ptr<const Constraint>> living_;  // kept, or held by requests
};

}  // namespace cria::serve
