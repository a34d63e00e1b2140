// What every function of the C interface does with its arguments and its errors.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "engine/c/cria.h"
#include "engine/c/handles.h"
#include "kernels/simd/float_mode.h"
#include "model/plural.h"

namespace cria::c_api {

/// A call that fails for a reason of this interface's own.
class Failure : public std::runtime_error {
 public:
  Failure(cria_status status_, const std::string& text)
      : std::runtime_error(text), status(status_) {}
  cria_status status;
};

/// The status of the exception that is being handled; its text is cria_last_error() from now on.
cria_status report_exception() noexcept;

/// f's status (CRIA_OK if it has none), or that of what it throws. Results do not depend on the
/// float mode of the program.
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

template <class T>
T& required(T* pointer, const char* name) {
  if (pointer == nullptr) throw Failure(CRIA_ERROR_ARGUMENT, std::string(name) + " is NULL");
  return *pointer;
}

/// [0, n) of an array that may be NULL where it is empty.
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

/// That of a struct, as the program has set it. Of any version it is a multiple of the alignment:
/// no pointer is cut in two.
template <class T>
std::size_t checked_size(const T& given) {
  constexpr std::size_t kLargest = 4096;
  if (given.size < sizeof(std::size_t) || given.size > kLargest || given.size % alignof(T) != 0)
    throw Failure(CRIA_ERROR_ARGUMENT, "a struct whose size is not set (CRIA_STRUCT sets it)");
  return given.size;
}

/// What both the program and this library know of a struct.
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
/// Members that this library does not know are 0.
template <class T>
void give(T* to, T values, const char* name) {
  const std::size_t size = checked_size(required(to, name));
  values.size = size;
  std::memset(static_cast<void*>(to), 0, size);
  std::memcpy(static_cast<void*>(to), &values, std::min(size, sizeof(T)));
}

/// Copies to an array of the caller's; tells how much there is in any case.
template <class From, class T>
void give_array(const From& values, T* to, std::size_t capacity, std::size_t* count) {
  required(count, "count") = values.size();
  if (values.size() > capacity)
    throw Failure(CRIA_ERROR_CAPACITY, "room for " + counted(values.size(), "element") +
                                           " is needed, there is room for " +
                                           std::to_string(capacity));
  array(to, values.size(), "the array");
  std::copy(values.begin(), values.end(), to);
}

/// The object of a handle.
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
/// Taken out of the table; freed with the last call that uses it.
template <class T>
std::shared_ptr<T> removed(std::uint64_t id) {
  std::shared_ptr<void> found = HandleTable::instance().remove(T::kKind, id);
  if (!found) throw Failure(CRIA_ERROR_HANDLE, std::string("no such ") + T::kName);
  return std::static_pointer_cast<T>(std::move(found));
}

}  // namespace cria::c_api
