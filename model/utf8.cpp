#include "model/utf8.h"

#include <cstddef>
#include <cstdint>

namespace cria {
namespace {

struct Lead {
  std::size_t more;        // continuation bytes
  std::uint8_t low, high;  // range of the first of them
};

// Lead bytes that could start an overlong form, a surrogate or too large a number narrow the second byte's
// range.
bool classify(std::uint8_t byte, Lead& lead) noexcept {
  if (byte < 0xC2 || byte > 0xF4) return false;
  lead = {byte < 0xE0 ? std::size_t{1} : byte < 0xF0 ? std::size_t{2} : std::size_t{3}, 0x80, 0xBF};
  if (byte == 0xE0) lead.low = 0xA0;
  if (byte == 0xED) lead.high = 0x9F;
  if (byte == 0xF0) lead.low = 0x90;
  if (byte == 0xF4) lead.high = 0x8F;
  return true;
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<std::uint8_t>(text[i++]);
    if (byte < 0x80) continue;
    Lead lead;
    if (!classify(byte, lead) || text.size() - i < lead.more) return false;
    for (std::size_t end = i + lead.more; i < end; ++i) {
      const auto next = static_cast<std::uint8_t>(text[i]);
      if (next < lead.low || next > lead.high) return false;
      lead.low = 0x80;
      lead.high = 0xBF;
    }
  }
  return true;
}

}  // namespace cria
