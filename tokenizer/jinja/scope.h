// Variables, in scopes inside of each other.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/jinja/value.h"

namespace cria::jinja {

class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}

  /// Null if there is no such variable here nor further out.
  [[nodiscard]] const Value* find(const std::string& name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
      const auto found = std::ranges::find(scope->variables_, name, &std::pair<std::string, Value>::first);
      if (found != scope->variables_.end()) return &found->second;
    }
    return nullptr;
  }
  /// Sets it here; outer variables of the same name are hidden, not changed.
  void set(const std::string& name, Value value) {
    const auto found = std::ranges::find(variables_, name, &std::pair<std::string, Value>::first);
    if (found == variables_.end())
      variables_.emplace_back(name, std::move(value));
    else
      found->second = std::move(value);
  }
  /// Its values may refer back to it.
  void clear() { variables_.clear(); }

 private:
  std::shared_ptr<Scope> parent_;
  std::vector<std::pair<std::string, Value>> variables_;
};

}  // namespace cria::jinja
