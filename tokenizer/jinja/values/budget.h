// Errors while a template runs, before the place is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace cria::jinja {

/// Thrown by values, filters and methods; the interpreter adds line and column and makes an Error
/// of it.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The template spent more than its limits.
class OverBudget : public Failure {
 public:
  using Failure::Failure;
};

// Limits on what a template may spend: it comes from an untrusted file.

struct Limits {
  std::uint64_t steps =
      4'000'000;                   ///< expressions, statements and elements: a fraction of a second
  std::uint64_t bytes = 32 << 20;  ///< for all texts and lists made on the way
  std::uint64_t steps_per_input_byte = 16;  ///< and more than that if the conversation is large
  std::uint64_t bytes_per_input_byte = 64;
  int depth = 800;  ///< nesting of calls, statements and expressions
};

/// Counts what was spent; throws OverBudget when it was too much.
class Budget {
 public:
  Budget(const Limits& limits, std::uint64_t input_bytes)
      : steps_(limits.steps), bytes_(limits.bytes), depth_(limits.depth) {
    const auto allow_more = [input_bytes](std::uint64_t per_byte, std::uint64_t& allowed) {
      std::uint64_t more = 0;
      if (!__builtin_mul_overflow(per_byte, input_bytes, &more) && more > allowed) allowed = more;
    };
    allow_more(limits.steps_per_input_byte, steps_);
    allow_more(limits.bytes_per_input_byte, bytes_);
  }

  void step(std::uint64_t n = 1) {
    if (n > steps_) throw OverBudget("the template runs too long");
    steps_ -= n;
  }
  /// n bytes of memory are about to be filled.
  void take(std::uint64_t n) {
    if (n > bytes_) throw OverBudget("the template takes too much memory");
    bytes_ -= n;
  }
  /// n bytes that are there are about to be looked at.
  void read(std::uint64_t n) { step(n / 64); }
  /// n values are about to be put into a list.
  void take_values(std::uint64_t n) {
    step(n);
    take(n * 32);
  }

  /// Memory that was taken; given back at its end, which must be before the budget's.
  class Loan {
   public:
    Loan(Budget& budget, std::uint64_t bytes) : budget_(budget) { take(bytes); }
    ~Loan() { budget_.bytes_ += bytes_; }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    void take(std::uint64_t bytes) {
      budget_.take(bytes);
      bytes_ += bytes;
    }

   private:
    Budget& budget_;
    std::uint64_t bytes_ = 0;
  };
  /// Like take_values, until the result is destroyed.
  [[nodiscard]] std::shared_ptr<const Loan> lend_values(std::uint64_t n) {
    step(n);
    return std::make_shared<const Loan>(*this, n * 32);
  }

  /// One level deeper, as long as it lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (budget_.depth_ == 0) throw Failure("the template is nested too deeply");
      --budget_.depth_;
    }
    ~Level() { ++budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  std::uint64_t steps_, bytes_;
  int depth_;
};

}  // namespace cria::jinja
