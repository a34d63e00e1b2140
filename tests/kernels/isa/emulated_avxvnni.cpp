// The encoding: Intel's manual, volume 2, "Instruction Format" and VPDPBUSD; the saved registers:
// volume 1, "XSAVE Area".
#include "tests/kernels/isa/emulated_avxvnni.h"

#include <cpuid.h>
#include <ucontext.h>

#include <cstdint>
#include <cstring>

namespace cria {
namespace {

constexpr std::size_t kWidth = 32;  ///< bytes of a register
std::size_t high_halves = 0;        ///< where the XSAVE area has the upper halves of the registers

/// A register of the interrupted program, in its saved state.
class Registers {
 public:
  explicit Registers(ucontext_t& context)
      : general_(context.uc_mcontext.gregs), low_(context.uc_mcontext.fpregs->_xmm) {
    auto* const area = reinterpret_cast<std::uint8_t*>(context.uc_mcontext.fpregs);
    high_ = area + high_halves;
    present_ = area + 512;  // XSTATE_BV: bit 2 says that upper halves are not zero
  }
  void read(unsigned i, std::uint8_t (&v)[kWidth]) const {
    std::memcpy(v, low_ + i, 16);
    if ((*present_ & 4) != 0)
      std::memcpy(v + 16, high_ + 16 * i, 16);
    else
      std::memset(v + 16, 0, 16);
  }
  void write(unsigned i, const std::uint8_t (&v)[kWidth]) {
    if ((*present_ & 4) == 0) std::memset(high_, 0, 256);
    *present_ |= 4;
    std::memcpy(low_ + i, v, 16);
    std::memcpy(high_ + 16 * i, v + 16, 16);
  }
  [[nodiscard]] std::uint64_t general(unsigned i) const {
    static constexpr int kOrder[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                       REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                       REG_R12, REG_R13, REG_R14, REG_R15};
    return static_cast<std::uint64_t>(general_[kOrder[i]]);
  }
  [[nodiscard]] const std::uint8_t* next() const {
    return reinterpret_cast<const std::uint8_t*>(general_[REG_RIP]);
  }
  void jump(const std::uint8_t* to) { general_[REG_RIP] = reinterpret_cast<greg_t>(to); }

 private:
  greg_t* general_;
  _libc_xmmreg* low_;
  std::uint8_t *high_, *present_;
};

/// The memory address of a ModRM byte at p; p moves behind it.
std::uint64_t address(const std::uint8_t*& p, bool extend_base, bool extend_index,
                      const Registers& registers) {
  const unsigned mod = *p >> 6, rm = *p & 7;
  ++p;
  const auto displacement = [&](std::size_t bytes) {
    std::int8_t near = 0;
    std::int32_t far = 0;
    bytes == 1 ? std::memcpy(&near, p, 1) : std::memcpy(&far, p, bytes);
    p += bytes;
    return static_cast<std::uint64_t>(std::int64_t{near} + far);
  };
  if (mod == 0 && rm == 5) {
    const std::uint64_t from_here =
        displacement(4);  // no immediate follows: p is the next instruction
    return reinterpret_cast<std::uint64_t>(p) + from_here;
  }
  std::uint64_t at = 0;
  unsigned base = rm;
  if (rm == 4) {
    const unsigned scale = *p >> 6, index = (*p >> 3 & 7U) | (extend_index ? 8U : 0U);
    base = *p & 7;
    ++p;
    if (index != 4) at += registers.general(index) << scale;
    if (base == 5 && mod == 0) return at + displacement(4);
  }
  at += registers.general(base | (extend_base ? 8U : 0U));
  return mod == 0 ? at : at + displacement(mod == 1 ? 1 : 4);
}

void multiply(bool bytes, const std::uint8_t (&a)[kWidth], const std::uint8_t (&b)[kWidth],
              std::uint8_t (&sums)[kWidth]) {
  for (std::size_t i = 0; i < kWidth; i += 4) {
    std::uint32_t sum;
    std::memcpy(&sum, sums + i, 4);
    for (std::size_t j = i; j < i + 4; j += bytes ? 1 : 2) {
      std::int16_t x = a[j], y = static_cast<std::int8_t>(b[j]);
      if (!bytes) std::memcpy(&x, a + j, 2), std::memcpy(&y, b + j, 2);
      sum += static_cast<std::uint32_t>(x * y);
    }
    std::memcpy(sums + i, &sum, 4);
  }
}

/// Emulates the next instruction; returns false for other instructions.
bool execute(Registers& registers) {
  const std::uint8_t* p = registers.next();
  const bool map_0f38 = (p[1] & 0x1F) == 2, prefix_66 = (p[2] & 0x83) == 1;  // W = 0
  if (p[0] != 0xC4 || !map_0f38 || !prefix_66 || (p[3] != 0x50 && p[3] != 0x52)) return false;
  const bool extend_reg = (p[1] & 0x80) == 0, extend_index = (p[1] & 0x40) == 0,
             extend_base = (p[1] & 0x20) == 0;
  const bool wide = (p[2] & 4) != 0, bytes = p[3] == 0x50;
  const unsigned first = ~(p[2] >> 3) & 15U;
  p += 4;
  const unsigned target = (*p >> 3 & 7U) | (extend_reg ? 8U : 0U);
  std::uint8_t a[kWidth], b[kWidth] = {}, sums[kWidth];
  if (*p >> 6 == 3) {
    registers.read((*p & 7U) | (extend_base ? 8U : 0U), b);
    ++p;
  } else {
    const std::uint64_t at = address(p, extend_base, extend_index, registers);
    std::memcpy(b, reinterpret_cast<const void*>(at), wide ? kWidth : kWidth / 2);
  }
  registers.read(first, a);
  registers.read(target, sums);
  multiply(bytes, a, b, sums);
  if (!wide) std::memset(sums + 16, 0, 16);
  registers.write(target, sums);
  registers.jump(p);
  return true;
}

void on_illegal_instruction(int, siginfo_t*, void* context) {
  Registers registers(*static_cast<ucontext_t*>(context));
  if (!execute(registers)) std::signal(SIGILL, SIG_DFL);  // comes again, and ends the process
}

}  // namespace

EmulatedAvxVnni::EmulatedAvxVnni() {
  unsigned size = 0, at = 0, c = 0, d = 0;
  __get_cpuid_count(0xD, 2, &size, &at, &c, &d);
  high_halves = at;
  struct sigaction action {};
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGILL, &action, &before_);
}
EmulatedAvxVnni::~EmulatedAvxVnni() { sigaction(SIGILL, &before_, nullptr); }

}  // namespace cria
