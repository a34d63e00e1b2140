// A cache of compiled constraints: response formats, grammars and tool calls of requests.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/constrain/constraint.h"
#include "tools/serve/api/json_text.h"

namespace cria::serve {

using tools::ConstraintFields;

/// Thread-safe.
class Constraints {
 public:
  using Pointer = std::shared_ptr<const Constraint>;

  /// note receives log lines, once for each compiled constraint. most_bytes limits the cache,
  /// most_in_use also counts the constraints that requests hold.
  explicit Constraints(std::function<void(const std::string&)> note,
                       std::size_t most_bytes = std::size_t{128} << 20,
                       std::size_t most_in_use = std::size_t{512} << 20)
      : note_(std::move(note)), most_bytes_(most_bytes), most_in_use_(most_in_use) {}

  /// Returns the constraint of a request; null if any answer will do. Throws RequestError:
  /// "invalid_schema" or "invalid_grammar" with the field, "unsupported_parameter" if calls of this
  /// format cannot be constrained, "queue_full" if all together take too much memory.
  Pointer of(const CompletionRequest& request, CallForm form);
  /// True if of() need not compile.
  [[nodiscard]] bool has(const CompletionRequest& request, CallForm form);

 private:
  Pointer find(const std::string& key, const std::function<Pointer()>& compile);

  Pointer of_tools(const CompletionRequest& request, CallForm form);
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
  std::list<Entry> entries_;                             // most recent first
  std::vector<std::weak_ptr<const Constraint>> living_;  // in the cache or held by requests
};

}  // namespace cria::serve
