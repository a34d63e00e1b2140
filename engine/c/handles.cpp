#include "engine/c/handles.h"

#include <utility>

namespace cria::c_api {
namespace {

// [kind: 8][generation: 24][place: 32]
constexpr std::uint32_t kGenerations = 1U << 24;

std::uint64_t number(HandleKind kind, std::uint32_t generation, std::uint32_t place) {
  return std::uint64_t{static_cast<std::uint8_t>(kind)} << 56 | std::uint64_t{generation} << 32 |
         place;
}

}  // namespace

// Never destroyed: a thread may be in a call when the program ends.
HandleTable& HandleTable::instance() {
  static HandleTable& table = *new HandleTable;
  return table;
}

const HandleTable::Slot* HandleTable::slot(HandleKind kind, std::uint64_t id) const {
  const auto place = static_cast<std::uint32_t>(id);
  if (place >= slots_.size()) return nullptr;
  const Slot& found = slots_[place];
  return found.object && found.kind == kind && id == number(kind, found.generation, place)
             ? &found
             : nullptr;
}

std::uint64_t HandleTable::add(HandleKind kind, std::shared_ptr<void> object) {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) {
    slots_.emplace_back();
    free_.reserve(slots_.size());  // so that remove() needs no memory
    free_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
  }
  const std::uint32_t place = free_.back();
  free_.pop_back();
  Slot& slot = slots_[place];
  slot.object = std::move(object);
  slot.kind = kind;
  return number(kind, slot.generation, place);
}

std::shared_ptr<void> HandleTable::find(HandleKind kind, std::uint64_t id) const {
  const std::scoped_lock lock(mutex_);
  const Slot* const found = slot(kind, id);
  return found == nullptr ? nullptr : found->object;
}

std::shared_ptr<void> HandleTable::remove(HandleKind kind, std::uint64_t id) {
  const std::scoped_lock lock(mutex_);
  if (slot(kind, id) == nullptr) return nullptr;
  const auto place = static_cast<std::uint32_t>(id);
  Slot& slot = slots_[place];
  if (++slot.generation < kGenerations) free_.push_back(place);  // else the place is used up
  return std::exchange(slot.object, nullptr);
}

}  // namespace cria::c_api
