// Objects that hold values. They do not tell how deeply they are nested, and a chain of millions of
// them would overflow the stack when it is destroyed; so they may not hold each other.
#pragma once

#include <span>

#include "tokenizer/jinja/values/value.h"

namespace cria::jinja {

/// The depth that an object has as a part of a list: generators, joiners, methods with their
/// values; loops, which hold anything.
inline constexpr int kHolderDepth = 50, kLoopDepth = 60;

/// Throws Failure if one of the values is, or contains, a holder.
inline void forbid_holders(std::span<const Value> values) {
  for (const Value& value : values) {
    if (value.extent().depth >= kHolderDepth)
      throw Failure(
          "a generator, function or loop cannot be kept in another one (|list makes a list of a "
          "generator)");
  }
}

/// Throws Failure if the value is, or contains, a loop: namespaces must not keep one.
inline void forbid_loops(const Value& value) {
  if (value.extent().depth >= kLoopDepth)
    throw Failure("a namespace cannot keep a loop or so deep a value");
}

}  // namespace cria::jinja
