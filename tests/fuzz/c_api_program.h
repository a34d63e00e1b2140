// A program against the C interface, call by call, and what must hold of every status.
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

class CProgram {
 public:
  /// What 16 bytes say: a function of names(), and its arguments.
  void call(std::string_view bytes);
  /// Frees what is alive, in one order or the other.
  void end(bool backwards);
  /// Answers whose end was told.
  [[nodiscard]] std::size_t told() const { return told_; }

  /// Calls by their numbers.
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

  static constexpr std::size_t kKinds = 6;  // of handles
  using Ids = std::vector<std::uint64_t>;
  static std::uint64_t nth(const Ids& ids, std::size_t n) {
    return ids.empty() ? 0 : ids[ids.size() - 1 - n % ids.size()];
  }

  /// A handle of this kind, or what is none. inside: of a struct, whose end may be cut off; there 0 is right.
  template <class H>
  H pick(bool inside = false);
  /// Where something is to be written to; or NULL, which is refused.
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
  /// What fill(array, capacity, count) writes, with room for all of it or less.
  template <class T, class F>
  std::vector<T> filled(F&& fill);
  [[nodiscard]] std::vector<cria_message> conversation();
  void read_piece(cria_status (*read)(cria_answer, cria_piece*));

  ByteSource bytes_{""};
  std::array<Ids, kKinds> live_, freed_;
  bool wrong_ = false;         // this call has an argument that must be refused
  bool stale_ = false;         // among them a handle
  bool stale_inside_ = false;  // there is one in a struct
  std::size_t told_ = 0;
};

}  // namespace cria::fuzz
