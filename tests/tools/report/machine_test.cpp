#include "tools/report/roofline.h"

#include <gtest/gtest.h>

#include "tests/tools/process.h"

namespace cria::test {
namespace {

// A container on a large machine.
TEST(Machine, ReportsTheMemoryLimitOfItsCgroup) {
  const TempDirectory directory;
  directory.write("memory.max", "409600\n");
  directory.write("memory.current", "100000\n");
  const CgroupTree container{directory.path(), directory.write("membership", "0::/\n")};
  const tools::MachineInfo machine = tools::this_machine(container);
  EXPECT_EQ(machine.memory, 409600U);
  EXPECT_EQ(machine.available, 309600U);
  const CgroupTree none{directory.path("none"), directory.path("none")};
  const tools::MachineInfo whole = tools::this_machine(none);
  EXPECT_GT(whole.memory, machine.memory);
  EXPECT_GT(whole.available, machine.available);
}

}  // namespace
}  // namespace cria::test
