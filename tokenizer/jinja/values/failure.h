// What goes wrong while a template runs, before the place is known.
#pragma once

#include <stdexcept>
#include <string>

namespace cria::jinja {

/// Thrown by values, filters and methods; the interpreter adds line and column and makes an Error
/// of it.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace cria::jinja
