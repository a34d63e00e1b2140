// Configurations of every architecture: a small model with some keys and tensors changed.
#include "tests/engine/architectures/architecture_cases.h"
#include "tests/engine/architectures/hostile_edits.h"
#include "tests/fuzz/byte_source.h"
#include "tests/fuzz/target.h"

namespace cria::fuzz {
namespace {

/// The unchanged model, made once.
const test::TinyArchitecture& tiny_architecture(std::size_t index) {
  static const std::vector<test::ArchitectureCase> cases = test::architecture_cases();
  static std::map<std::size_t, test::TinyArchitecture> made;
  index %= cases.size();
  const auto found = made.find(index);
  return found != made.end()
             ? found->second
             : made.emplace(index, test::TinyArchitecture(cases[index])).first->second;
}

/// The first byte selects the architecture; the others are changes.
void run_architecture(std::string_view input) {
  ByteSource source(input);
  test::TinyArchitecture tiny = tiny_architecture(source.number<std::uint8_t>());
  const auto below = [&source](std::size_t n) {
    return static_cast<std::size_t>(source.between(0, static_cast<std::uint32_t>(n) - 1));
  };
  for (int changes = 0; changes < 8 && !source.empty(); ++changes) test::spoil(tiny, below);
  test::load_and_run(tiny);
}

std::vector<std::string> architecture_seeds() {
  std::vector<std::string> seeds;
  Random random(1);
  for (std::size_t i = 0; i < test::architecture_cases().size(); ++i) {
    std::string seed(1, static_cast<char>(i));
    seeds.push_back(seed);
    while (seed.size() < 12) seed += static_cast<char>(random());
    seeds.push_back(seed);
  }
  return seeds;
}

}  // namespace

const Target kArchitecture{"architecture", run_architecture, architecture_seeds};

}  // namespace cria::fuzz
