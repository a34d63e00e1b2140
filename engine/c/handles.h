// The numbers that callers hold: looked up with every call, so that stale ones are found out.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace cria::c_api {

enum class HandleKind : std::uint8_t { Model = 1, Engine, Sequence, Sampler, Constraint, Answer };

/// A number is a place in the table, how often the place was used before, and its kind. An object
/// lives while it is in the table or a call has it.
class HandleTable {
 public:
  static HandleTable& instance();
  std::uint64_t add(HandleKind kind, std::shared_ptr<void> object);
  /// Null: there is none of this kind with this number.
  [[nodiscard]] std::shared_ptr<void> find(HandleKind kind, std::uint64_t id) const;
  /// Takes it out of the table. Null as find().
  std::shared_ptr<void> remove(HandleKind kind, std::uint64_t id);

 private:
  struct Slot {
    std::shared_ptr<void> object;
    HandleKind kind{};
    std::uint32_t generation = 1;
  };
  [[nodiscard]] const Slot* slot(HandleKind kind, std::uint64_t id) const;

  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace cria::c_api
