// What requests ask of the form of their answers, compiled, and kept for the next request that asks the same.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "engine/constrain/constraint.h"
#include "tools/serve/api/completion_request.h"

namespace cria::serve {

/// Safe from any thread.
class Constraints {
 public:
  using Pointer = std::shared_ptr<const Constraint>;

  /// note: gets a line for the log, once for each that is compiled. most_bytes: of those that are kept.
  explicit Constraints(std::function<void(const std::string&)> note,
                       std::size_t most_bytes = std::size_t{128} << 20)
      : note_(std::move(note)), most_bytes_(most_bytes) {}

  /// Null: anything. form: how tools are called. Throws RequestError "invalid_schema" or "invalid_grammar" with the field, and
  /// "unsupported_parameter" where calls of this form cannot be held to what it demands.
  Pointer of(const CompletionRequest& request, CallForm form);
  /// Whether of() has nothing to compile.
  [[nodiscard]] bool has(const CompletionRequest& request, CallForm form);

 private:
  Pointer find(const std::string& key, const std::function<Pointer()>& compile);

  Pointer of_tools(const ToolFields& tools, CallForm form);
  bool knows(const std::string& key);
  void drop_oldest();

  struct Entry {
    std::string key;
    Pointer constraint;
  };
  const std::function<void(const std::string&)> note_;
  const std::size_t most_bytes_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the latest first
};

}  // namespace cria::serve
