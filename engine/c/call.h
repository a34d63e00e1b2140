// Arguments, handles and errors of the functions of the C interface.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/c/cria.h"
#include "kernels/simd/float_mode.h"
#include "model/plural.h"

namespace cria::c_api {

enum class HandleKind : std::uint8_t {
  Model = 1,
  Engine,
  Sequence,
  Sampler,
  Constraint,
  Answer,
  Gguf,
  GgufWriter
};

/// The numbers that callers hold. A number encodes a slot of the table, how often the slot was used
/// before, and the kind: stale numbers are detected. An object lives while it is in the table or in
/// use by a call.
class HandleTable {
 public:
  static HandleTable& instance();
  std::uint64_t add(HandleKind kind, std::shared_ptr<void> object);
  /// Returns null for an unknown number or one of another kind.
  [[nodiscard]] std::shared_ptr<void> find(HandleKind kind, std::uint64_t id) const;
  /// Removes the object from the table. Returns null as find().
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

/// An error of the interface itself.
class Failure : public std::runtime_error {
 public:
  Failure(cria_status status_, const std::string& text)
      : std::runtime_error(text), status(status_) {}
  cria_status status;
};

/// Returns the status of the current exception and sets cria_last_error().
cria_status report_exception() noexcept;

/// Returns f's status (CRIA_OK if it has none), or that of its exception. Runs f in the default
/// float mode.
template <class F>
cria_status call(F&& f) noexcept {
  const DefaultFloatMode mode;
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<F>>)
      return f(), CRIA_OK;
    else
      return f();
  } catch (...) {
    return report_exception();
  }
}

/// The error of an array that is too small; needed: such as "3 elements".
inline Failure too_small(const std::string& needed, std::size_t capacity) {
  return {CRIA_ERROR_CAPACITY,
          "room for " + needed + " is needed, there is room for " + std::to_string(capacity)};
}

template <class T>
T& required(T* pointer, const char* name) {
  if (pointer == nullptr) throw Failure(CRIA_ERROR_ARGUMENT, std::string(name) + " is NULL");
  return *pointer;
}

/// Elements [0, n) of an array, which may be NULL if it is empty.
template <class T>
std::span<T> array(T* items, std::size_t n, const char* name) {
  if (n != 0) required(items, name);
  if (n > PTRDIFF_MAX / sizeof(T))
    throw Failure(CRIA_ERROR_ARGUMENT, std::string(name) + " is too long");
  return {items, n};
}
inline std::string_view text(const char* bytes, std::size_t size, const char* name) {
  const std::span<const char> all = array(bytes, size, name);
  return {all.data(), all.size()};
}

/// Returns the size that the program has set in a struct. In all versions it is a multiple of the
/// alignment: no member is cut in two.
template <class T>
std::size_t checked_size(const T& given) {
  constexpr std::size_t kMax = 4096;
  if (given.size < sizeof(std::size_t) || given.size > kMax || given.size % alignof(T) != 0)
    throw Failure(CRIA_ERROR_ARGUMENT, "a struct whose size is not set (CRIA_STRUCT sets it)");
  return given.size;
}

/// Copies the members of a struct that both the program and this library know.
template <class T>
T taken(const T* given) {
  T out{};
  out.size = sizeof(T);
  if (given == nullptr) return out;
  const std::size_t size = checked_size(*given);
  const auto* const bytes = reinterpret_cast<const char*>(given);
  std::memcpy(&out, bytes, std::min(size, sizeof(T)));
  if (size > sizeof(T) &&
      std::any_of(bytes + sizeof(T), bytes + size, [](char byte) { return byte != 0; }))
    throw Failure(CRIA_ERROR_ARGUMENT, "an option that this version of the library does not know");
  return out;
}
/// Writes a struct; sets members that this library does not know to 0.
template <class T>
void give(T* to, T values, const char* name) {
  const std::size_t size = checked_size(required(to, name));
  values.size = size;
  std::memset(static_cast<void*>(to), 0, size);
  std::memcpy(static_cast<void*>(to), &values, std::min(size, sizeof(T)));
}

/// Copies to an array of the caller and always sets the number of elements.
template <class From, class T>
void give_array(const From& values, T* to, std::size_t capacity, std::size_t* count) {
  required(count, "count") = values.size();
  if (values.size() > capacity) throw too_small(counted(values.size(), "element"), capacity);
  array(to, values.size(), "the array");
  std::copy(values.begin(), values.end(), to);
}

/// Returns the object of a handle.
template <class T>
std::shared_ptr<T> object(std::uint64_t id) {
  std::shared_ptr<void> found = HandleTable::instance().find(T::kKind, id);
  if (!found) throw Failure(CRIA_ERROR_HANDLE, std::string("no such ") + T::kName);
  return std::static_pointer_cast<T>(std::move(found));
}
template <class T>
std::uint64_t handle(std::shared_ptr<T> of) {
  return HandleTable::instance().add(T::kKind, std::move(of));
}
/// Removes an object from the table; the last call that uses it frees it.
template <class T>
std::shared_ptr<T> removed(std::uint64_t id) {
  std::shared_ptr<void> found = HandleTable::instance().remove(T::kKind, id);
  if (!found) throw Failure(CRIA_ERROR_HANDLE, std::string("no such ") + T::kName);
  return std::static_pointer_cast<T>(std::move(found));
}

}  // namespace cria::c_api
