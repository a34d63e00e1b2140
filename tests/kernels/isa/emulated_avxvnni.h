// Executes the instructions of AVX-VNNI for a processor that has none: each is an illegal
// instruction there, whose signal is answered by doing what it would have done.
#pragma once

#include <csignal>

namespace cria {

/// While it lives, `vpdpbusd` and `vpdpwssd` of this process's threads, on 128- or 256-bit
/// registers and in VEX's encoding, work on any processor with AVX2 (a few thousand cycles each).
/// Other illegal instructions do what they did before.
class EmulatedAvxVnni {
 public:
  EmulatedAvxVnni();
  ~EmulatedAvxVnni();
  EmulatedAvxVnni(const EmulatedAvxVnni&) = delete;
  EmulatedAvxVnni& operator=(const EmulatedAvxVnni&) = delete;

 private:
  struct sigaction before_;
};

}  // namespace cria
