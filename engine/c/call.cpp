#include "engine/c/call.h"

#include <new>
#include <utility>

#include "engine/constrain/constraint.h"
#include "engine/execute/machine.h"
#include "engine/session.h"

namespace cria::c_api {
namespace {

thread_local std::string last_error;

cria_status report(cria_status status, const char* text) noexcept {
  try {
    last_error = text;
  } catch (...) {  // out of memory: keep the previous text
  }
  return status;
}

// [kind: 8][generation: 24][slot: 32]
constexpr std::uint32_t kGenerations = 1U << 24;

std::uint64_t number(HandleKind kind, std::uint32_t generation, std::uint32_t place) {
  return std::uint64_t{static_cast<std::uint8_t>(kind)} << 56 | std::uint64_t{generation} << 32 |
         place;
}

}  // namespace

// Never destroyed: a thread may be in a call at program exit.
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
    free_.reserve(slots_.size());  // remove() never allocates
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
  if (++slot.generation < kGenerations) free_.push_back(place);  // else the slot is used up
  return std::exchange(slot.object, nullptr);
}

cria_status report_exception() noexcept {
  try {
    throw;
  } catch (const Failure& failure) {
    return report(failure.status, failure.what());
  } catch (const ContextOverflow& error) {
    return report(CRIA_ERROR_CONTEXT, error.what());
  } catch (const ConstraintError& error) {
    return report(CRIA_ERROR_CONSTRAINT, error.what());
  } catch (const Error& error) {
    return report(CRIA_ERROR_DATA, error.what());
  } catch (const std::bad_alloc&) {
    return report(CRIA_ERROR_MEMORY, "out of memory");
  } catch (const std::length_error&) {
    return report(CRIA_ERROR_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return report(CRIA_ERROR_INTERNAL, error.what());
  } catch (...) {
    return report(CRIA_ERROR_INTERNAL, "unknown exception");
  }
}

}  // namespace cria::c_api

const char* cria_last_error(void) { return cria::c_api::last_error.c_str(); }

const char* cria_version(void) { return CRIA_VERSION; }

const char* cria_isa(void) {
  try {
    return cria::kernels_in_use().isa.data();  // a string literal
  } catch (...) {
    return "";
  }
}
