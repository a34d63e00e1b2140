// A program that calls the C interface, and checks of every status.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "tests/fuzz/c_api_arguments.h"
#include "tests/fuzz/target.h"

namespace cria::fuzz {

constexpr std::size_t kCallBytes = 16;

constexpr std::size_t kMaxLive = 12;  // per kind of handle

template <class H>
inline constexpr std::size_t kKindOf = 6;
template <>
inline constexpr std::size_t kKindOf<cria_model> = 0;
template <>
inline constexpr std::size_t kKindOf<cria_engine> = 1;
template <>
inline constexpr std::size_t kKindOf<cria_sequence> = 2;
template <>
inline constexpr std::size_t kKindOf<cria_sampler> = 3;
template <>
inline constexpr std::size_t kKindOf<cria_constraint> = 4;
template <>
inline constexpr std::size_t kKindOf<cria_answer> = 5;

class CProgram {
 public:
  /// Makes the call that 16 bytes encode: a function of names(), and its arguments.
  void call(std::string_view bytes);
  /// Frees all live handles, in either order.
  void end(bool backwards);
  /// Number of answers that reported their end.
  [[nodiscard]] std::size_t told() const { return told_; }

  /// Calls by number.
  static std::span<const std::string_view> names();

 private:
  struct Call;
  static std::span<const Call> calls();
  void model_load();
  void model_free() { release(cria_model_free); }
  void model_info();
  void tokenize();
  void detokenize();
  void apply_template();
  void sampler_create();
  void sampler_set();
  void sampler_set_more();
  void sampler_free() { release(cria_sampler_free); }
  void constrain();
  void constraint_check();
  void constraint_free() { release(cria_constraint_free); }
  void engine_create();
  void engine_free() { release(cria_engine_free); }
  void engine_options();
  void engine_cancel() { check(cria_engine_cancel(pick<cria_engine>())); }
  void engine_step();
  void answer_begin();
  void answer_next() { read_piece(cria_answer_next); }
  void answer_poll() { read_piece(cria_answer_poll); }
  void answer_cancel() { check(cria_answer_cancel(pick<cria_answer>())); }
  void answer_result();
  void answer_free() { release(cria_answer_free); }
  void two_threads();
  void logits();
  void embed();
  void sequence_create();
  void sequence_fork();
  void sequence_truncate();
  void sequence_reuse();
  void sequence_tokens();
  void sequence_free() { release(cria_sequence_free); }
  void forward();
  void score();
  void perplexity();

  static constexpr std::size_t kKinds = 6;  // kinds of handles
  using Ids = std::vector<std::uint64_t>;
  static std::uint64_t nth(const Ids& ids, std::size_t n) {
    return ids.empty() ? 0 : ids[ids.size() - 1 - n % ids.size()];
  }

  /// Returns a handle of this kind, or an invalid one. inside: a member of a struct, whose end may
  /// be cut off; there 0 is valid.
  template <class H>
  H pick(bool inside = false);
  /// Returns a place for output, or NULL, which must be refused.
  template <class T>
  T* out(T& place) {
    const bool null = bytes_.number<std::uint8_t>() >= 248;
    wrong_ = wrong_ || null;
    return null ? nullptr : &place;
  }
  template <class T>
  SizedStruct<T> sized(T values, bool may_be_null = false) {
    SizedStruct<T> made(values, bytes_);
    wrong_ = wrong_ || !(made.right() || (may_be_null && made.get() == nullptr));
    return made;
  }
  template <class T>
  ArrayArgument<T> checked(ArrayArgument<T> argument) {
    wrong_ = wrong_ || !argument.right;
    return argument;
  }
  void check(cria_status status) const;
  template <class H>
  void made(cria_status status, const H& handle);
  template <class H>
  void release(cria_status (*free)(H));
  /// Calls fill(array, capacity, count) with sufficient or smaller capacity.
  template <class T, class F>
  std::vector<T> filled(F&& fill);
  [[nodiscard]] std::vector<cria_message> conversation();
  void read_piece(cria_status (*read)(cria_answer, cria_piece*));

  ByteSource bytes_{""};
  std::array<Ids, kKinds> live_, freed_;
  bool wrong_ = false;         // an argument must be refused
  bool stale_ = false;         // such an argument is a handle
  bool stale_inside_ = false;  // a struct has such a handle
  std::size_t told_ = 0;
};

template <class H>
H CProgram::pick(bool inside) {
  const Ids& own = live_[kKindOf<H>];
  const auto how = bytes_.number<std::uint8_t>();
  H handle{};
  if (how < 176)
    handle.id = nth(own, how);
  else if (how < 200)
    handle.id = nth(freed_[kKindOf<H>], how);
  else if (how < 224)
    handle.id = nth(live_[(kKindOf<H> + 1 + how) % kKinds], how);
  else if (how >= 232)
    handle.id = nth(own, how) ^ std::uint64_t{1} << (bytes_.number<std::uint8_t>() % 64);
  const bool alive = std::ranges::find(own, handle.id) != own.end();
  if (inside) {
    stale_inside_ = stale_inside_ || (!alive && handle.id != 0);
  } else {
    stale_ = stale_ || !alive;
    wrong_ = wrong_ || stale_;
  }
  return handle;
}

template <class H>
void CProgram::made(cria_status status, const H& handle) {
  check(status);
  require((status == CRIA_OK) == (handle.id != 0),
          "a handle without success, or the other way round");
  if (handle.id == 0) return;
  for (const auto& ids : {live_, freed_})
    for (const Ids& of_kind : ids)
      require(std::ranges::find(of_kind, handle.id) == of_kind.end(),
              "a handle that was given before");
  live_[kKindOf<H>].push_back(handle.id);
}

template <class H>
void CProgram::release(cria_status (*free)(H)) {
  const H handle = pick<H>();
  const cria_status status = free(handle);
  require(status == (stale_ ? CRIA_ERROR_HANDLE : CRIA_OK),
          "a stale handle is freed, or a valid one is not");
  if (stale_) return;
  std::erase(live_[kKindOf<H>], handle.id);
  freed_[kKindOf<H>].push_back(handle.id);
}

template <class T, class F>
std::vector<T> CProgram::filled(F&& fill) {
  std::size_t n = 0;
  std::size_t* const count = out(n);
  const auto how = bytes_.number<std::uint8_t>();
  const cria_status asked = fill(static_cast<T*>(nullptr), std::size_t{0}, count);
  check(asked);
  if (asked != CRIA_ERROR_CAPACITY) return {};
  require(n > 0, "no room for nothing");
  std::vector<T> array(how < 200 ? n : how % n);
  array.shrink_to_fit();
  const cria_status status = fill(array.data(), array.size(), count);
  check(status);
  require(status != CRIA_OK || n <= array.size(), "more is written than there is room for");
  require(status != CRIA_ERROR_CAPACITY || n > array.size(), "reports too little capacity");
  array.resize(status == CRIA_OK ? n : 0);
  return array;
}

}  // namespace cria::fuzz
