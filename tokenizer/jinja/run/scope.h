// Variables, in scopes inside of each other.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "tokenizer/jinja/values/value.h"

namespace cria::jinja {

class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}

  /// Null if there is no such variable here nor further out.
  [[nodiscard]] const Value* find(const std::string& name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
      const auto found = scope->variables_.find(name);
      if (found != scope->variables_.end()) return &found->second;
    }
    return nullptr;
  }
  /// Sets it here; outer variables of the same name are hidden, not changed.
  void set(const std::string& name, Value value) {
    variables_.insert_or_assign(name, std::move(value));
  }
  /// Its values may refer back to it.
  void clear() { variables_.clear(); }

 private:
  std::shared_ptr<Scope> parent_;
  std::unordered_map<std::string, Value> variables_;
};

}  // namespace cria::jinja
